package neterr

import (
	"errors"
	"slices"
	"strings"
)

// pooler is the next step if a prepared statement is another's, or gone.
const pooler = "a pooler without prepared statements; set default_query_exec_mode=exec in the connection string"

// postgres has the reason and the next step for an SQLSTATE, or for its class.
var postgres = map[string]string{
	"42P05": pooler, "26000": pooler,
	"42P01": "a table is missing; call Migrate", "42703": "a column is missing; call Migrate",
	"3F000": "the schema is missing; call Migrate",
	"42501": "the role lacks a right; grant the rights in the documentation of the store",
	"28":    "the sign-in was refused; correct the connection string",
	"3D":    "the database is missing; correct the connection string",
	"25006": "the server accepts no writes; connect to the primary, with target_session_attrs=read-write in the connection string",
	"25P04": "a lock or a slow disk, and a transaction_timeout that is shorter",
	"53":    "the server is full; check its connections, memory and disk",
	"57":    "the server is stopping or starting, or a statement was canceled",
}

// redis has the reason and the next step for the first word of an answer.
var redis = map[string]string{
	"MOVED":     "the server is one of a cluster; use redis.NewClusterClient",
	"OOM":       "Redis is full; raise maxmemory",
	"NOPERM":    "the user lacks a right; grant all commands for the keys of the store, also in scripts",
	"NOAUTH":    "the sign-in was refused; correct user and password",
	"WRONGPASS": "the sign-in was refused; correct user and password",
	"READONLY":  "the server accepts no writes; connect to the primary",
	"MISCONF":   "Redis cannot write to its disk; check the disk",
	"LOADING":   "Redis is starting",
}

// inScript are the words of Redis for a script that runs a command without the right.
const inScript = "can't run this command"

// storeCode returns the code that PostgreSQL or Redis answered, "" without one.
func storeCode(err error) (server, code string) {
	if sql := interface{ SQLState() string }(nil); errors.As(err, &sql) {
		return "PostgreSQL", sql.SQLState()
	}
	if answer := interface {
		error
		RedisError()
	}(nil); errors.As(err, &answer) {
		code, _, _ = strings.Cut(answer.Error(), " ")
		if code == "ERR" && strings.Contains(answer.Error(), inScript) {
			code = "NOPERM"
		}
		return "Redis", code
	}
	return "", ""
}

// closed are the errors of pgxpool, bolt and go-redis after their Close.
var closed = []string{"closed pool", "database not open", "redis: client is closed"}

// describeStore returns the code of a server, and its meaning if that is known.
func describeStore(err error) (text string, ok bool) {
	if slices.ContainsFunc(closed, func(end string) bool { return strings.HasSuffix(err.Error(), end) }) {
		return "the store is closed; close it after the client and its workers", true
	}
	server, code := storeCode(err)
	if strings.ContainsFunc(code, func(c rune) bool { return (c < 'A' || c > 'Z') && (c < '0' || c > '9') }) || code == "" {
		return "", false
	}
	meaning := redis[code]
	if server == "PostgreSQL" {
		if meaning = postgres[code]; meaning == "" {
			meaning = postgres[code[:min(2, len(code))]]
		}
	}
	if text = server + " answered " + code; meaning != "" {
		text += ": " + meaning
	}
	return text, true
}

// IsMisconfigured reports whether a server refused a statement for a reason that only a person can
// correct: a missing table or right, a wrong sign-in, or a wrong kind of client.
func IsMisconfigured(err error) bool {
	server, code := storeCode(err)
	if server == "PostgreSQL" {
		return slices.ContainsFunc([]string{"42", "28", "3D", "3F"}, func(class string) bool { return strings.HasPrefix(code, class) })
	}
	return slices.Contains([]string{"MOVED", "NOPERM", "NOAUTH", "WRONGPASS"}, code)
}
