// Package browser holds the tests of the sandbox's page in a browser: Debian's chromium,
// without a window, at the widths of a telephone, a tablet and a desk, light and dark.
//
// The browser is told what to do over a pipe, in the Chrome DevTools Protocol: the little
// of it that the tests need is in chromium_test.go, and costs less than a library of it
// would to compile. With LENDING_TEST_SCREENSHOTS=folder the tests leave there what they
// have seen.
package browser
