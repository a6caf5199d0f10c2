// Package lendingrestate proves the recipe for Restate in docs/workflows.md at Restate's real
// server. It has tests only. Restate runs a step at least once, so a worker that is killed
// between a mutation and the end of its step sends the mutation again; an idempotency key that is
// made of the order keeps it from happening twice.
//
// `make restate-peer` gets the server from npm and runs the test.
package lendingrestate
