// Package lendingredis keeps in Redis what the replicas of one service share: the
// token they call with, the webhooks they have accepted, which of these they have acted on,
// and their mutations with a key.
//
// It is a module of its own, so that nobody else gets its dependencies.
package lendingredis
