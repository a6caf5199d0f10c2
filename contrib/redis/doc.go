// Package lendingredis keeps in Redis what the replicas of one service share: the
// token they call with, the webhooks they have accepted, and which of these they have
// acted on.
//
// It is a module of its own, so that nobody else gets its dependencies.
package lendingredis
