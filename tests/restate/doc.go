// Package lendingrestate tests the recipe of docs/workflows.md with a Restate server. The
// package has only tests. Restate runs a step at least once: if a worker is killed between a
// mutation and the end of its step, the next worker sends the mutation again. An idempotency key
// from the order keeps the mutation from happening twice.
//
// `make restate-peer` gets the server from npm and runs the test.
package lendingrestate
