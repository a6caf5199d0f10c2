package neterr_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/lendingapi/lending-go/internal/neterr"
)

// sqlError and redisError are errors as those of pgx and go-redis.
type sqlError string

func (sqlError) Error() string      { return "SHHH" }
func (s sqlError) SQLState() string { return string(s) }

type redisError string

func (r redisError) Error() string { return string(r) }
func (redisError) RedisError()     {}

func TestAnswersOfStoresNameTheNextStep(t *testing.T) {
	const pooler = "a pooler without prepared statements; set default_query_exec_mode=exec in the connection string"
	const isClosed = "the store is closed; close it after the client and its workers"
	for _, test := range []struct {
		err    error
		want   string
		person bool
	}{
		{sqlError("42P01"), "PostgreSQL answered 42P01: a table is missing; call Migrate", true},
		{
			sqlError("42501"),
			"PostgreSQL answered 42501: the role lacks a right; grant the rights in the documentation of the store", true,
		},
		{sqlError("42601"), "PostgreSQL answered 42601", true},
		{sqlError("28P01"), "PostgreSQL answered 28P01: the sign-in was refused; correct the connection string", true},
		{sqlError("42P05"), "PostgreSQL answered 42P05: " + pooler, true},
		{sqlError("26000"), "PostgreSQL answered 26000: " + pooler, false},
		{
			sqlError("57P03"),
			"PostgreSQL answered 57P03: the server is stopping or starting, or a statement was canceled", false,
		},
		{
			sqlError("25P04"),
			"PostgreSQL answered 25P04: a lock or a slow disk, and a transaction_timeout that is shorter", false,
		},
		{sqlError("XX000"), "PostgreSQL answered XX000", false},
		{sqlError("SHHH 1"), "an error of type neterr_test.sqlError, not shown because its text may be confidential", false},
		{
			redisError("MOVED 1 SHHH:1"),
			"Redis answered MOVED: the server is one of a cluster; use redis.NewClusterClient", true,
		},
		{redisError("OOM command not allowed"), "Redis answered OOM: Redis is full; raise maxmemory", false},
		{
			redisError("ERR The user executing the script can't run this command or subcommand script: SHHH"),
			"Redis answered NOPERM: the user lacks a right; grant all commands for the keys of the store, also in scripts", true,
		},
		{redisError("ERR SHHH"), "Redis answered ERR", false},
		{errors.New("closed pool"), isClosed, false},
		{fmt.Errorf("SHHH: %w", errors.New("database not open")), isClosed, false},
		{errors.New("redis: client is closed"), isClosed, false},
		{
			redisError("shhh"), "an error of type neterr_test.redisError, not shown because its text may be confidential",
			false,
		},
	} {
		t.Run(test.err.Error()+test.want, func(t *testing.T) {
			assert.Equal(t, test.want, neterr.OrType(test.err))
			wrapped := fmt.Errorf("SHHH: %w", errors.Join(errors.New("SHHH"), test.err))
			assert.Equal(t, test.person, neterr.IsMisconfigured(wrapped))
		})
	}
}
