// Package lendingrestate compiles the recipe of docs/workflows.md with Restate's SDK. Restate runs a
// step at least once: if a worker is killed between a mutation and the end of its step, the next worker
// sends the mutation again. An idempotency key from the order keeps the mutation from happening twice,
// which the tests of the stores hold under kills.
package lendingrestate
