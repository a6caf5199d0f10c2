// Package lendingredis keeps the shared state of a program's replicas in Redis: their token,
// accepted webhooks, handled webhooks, and mutations with an idempotency key.
//
// contrib/README.md lists the Redis settings for each store, and which data survive with them.
package lendingredis
