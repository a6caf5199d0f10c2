package lendingpostgres

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/backoff"
	"github.com/lendingapi/lending-go/internal/safely"
)

const notifyChannel = "SELECT pg_catalog.pg_notify($1::text, '')"

// channel is a name that needs no quotes, and that no other inbox has.
func (b *Inbox) channel() string {
	sum := sha256.Sum256([]byte(b.table("inbox") + "\x00" + b.name))
	return "lending_" + hex.EncodeToString(sum[:16])
}

// Listen has this process take events as soon as another has put them, until ctx ends: a
// speed-up, which nothing relies on. It needs [InboxOptions.Notify] where they are put, and a
// connection of its own to the server itself: the settings are those of config, or of the
// pool if that is nil. Behind a pooler that gives each transaction another session nothing is
// heard: Listen finds that out within 5 s, by telling itself, leaves the inbox asking once in
// Poll, and tries again after up to 10 s.
//
//	go inbox.Listen(ctx, nil)
//
// While it is connected the inbox asks once in 15 times Poll only. When it is cut it connects
// again, after up to 10 s.
func (b *Inbox) Listen(ctx context.Context, config *pgx.ConnConfig) {
	for wait := 100 * time.Millisecond; ctx.Err() == nil; wait = min(2*wait, 10*time.Second) {
		_ = safely.Call[lending.PanicError](func() error {
			return b.listen(ctx, config, func() { wait = 100 * time.Millisecond })
		})
		_ = backoff.Sleep(ctx, wait)
	}
}

func (b *Inbox) listen(ctx context.Context, config *pgx.ConnConfig, connected func()) error {
	conn, err := b.connect(ctx, config)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if _, err := conn.Exec(ctx, "LISTEN "+b.channel()); err != nil {
		return err
	}
	if _, err := b.exec(ctx, notifyChannel, b.channel()); err != nil { // from another session
		return err
	}
	confirming, cancel := context.WithTimeout(ctx, 5*time.Second)
	_, err = conn.WaitForNotification(confirming)
	cancel()
	if err != nil {
		return err // of a pooler between, that gives it to nobody
	}
	connected()
	b.listens(1)
	defer b.listens(-1)
	for {
		b.claims().LookIn(0) // also for what was put before
		waiting, cancel := context.WithTimeout(ctx, 30*time.Second)
		_, err := conn.WaitForNotification(waiting)
		cancel()
		if err != nil && ctx.Err() == nil && waiting.Err() != nil { // perhaps it is cut, and nobody has said so
			asking, cancel := context.WithTimeout(ctx, 5*time.Second)
			err = conn.Ping(asking)
			cancel()
		}
		if err != nil {
			return err
		}
	}
}

func (b *Inbox) connect(ctx context.Context, config *pgx.ConnConfig) (*pgx.Conn, error) {
	if config == nil {
		pool := b.pool().Config()
		config = pool.ConnConfig
		if pool.BeforeConnect != nil {
			if err := pool.BeforeConnect(ctx, config); err != nil {
				return nil, err
			}
		}
	}
	return pgx.ConnectConfig(ctx, config.Copy())
}

// listens counts the connections that tell of new events: while there is one, the inbox asks less
// often.
func (b *Inbox) listens(n int) {
	notifier := b.notifier()
	notifier.mu.Lock()
	defer notifier.mu.Unlock()
	notifier.listening += n
	poll := b.options.Poll
	if notifier.listening > 0 {
		poll *= 15
	}
	b.claims().SetPoll(poll)
}

// notifier tells the processes that listen. A transaction that notifies waits for all others that
// do. So one notification serves all events that are put while it is sent, and shortly after.
type notifier struct {
	mu             sync.Mutex
	sending, again bool
	listening      int
}

// notify tells the processes that listen, in the background.
func (b *Inbox) notify(ctx context.Context) {
	if !b.options.Notify || !b.notifier().start() {
		return
	}
	ctx = context.WithoutCancel(ctx)
	go func() {
		for b.notifier().next() {
			_ = safely.Call[lending.PanicError](func() error { // a process that is not told asks within Poll
				ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
				defer cancel()
				return b.retry(ctx, func(conn *pgxpool.Conn) error {
					_, err := conn.Exec(ctx, notifyChannel, b.channel())
					return err
				})
			})
			<-time.After(20 * time.Millisecond)
		}
	}()
}

// start asks for a notification, and reports whether the caller has to send it.
func (n *notifier) start() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	first := !n.sending
	n.sending, n.again = true, true
	return first
}

// next reports whether a notification was asked for since the last.
func (n *notifier) next() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sending, n.again = n.again, false
	return n.sending
}
