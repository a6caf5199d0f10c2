// Package browser tests the sandbox's page and the operator's page in headless Chromium: at the
// widths of a phone, a tablet and a desktop screen, in light and dark colors.
//
// The tests control the browser through a pipe, with the Chrome DevTools Protocol. The file
// chromium_test.go implements the small part of the protocol they need, which compiles faster
// than a library. If LENDING_TEST_SCREENSHOTS names a folder, the tests save their screenshots
// there. The sandbox is the program that its Dockerfile builds. tools/axe.sh runs the tests of pages
// with the rules of axe-core, from npm.
package browser
