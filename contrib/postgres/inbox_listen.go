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

const notify = "SELECT pg_catalog.pg_notify($1::text, '')"

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
	if b.err != nil {
		return b.err
	}
	conn, err := b.connect(ctx, config)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if _, err := conn.Exec(ctx, "LISTEN "+b.channel()); err != nil {
		return err
	}
	if _, err := b.exec(ctx, notify, b.channel()); err != nil { // from another session
		return err
	}
	hearing, cancel := context.WithTimeout(ctx, 5*time.Second)
	_, err = conn.WaitForNotification(hearing)
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

// listens counts the connections that tell of new events.
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

// notifier tells those who listen in other processes. Of what rings while it does that, or
// shortly after, they are told together: a transaction that notifies waits for all others
// that do.
type notifier struct {
	mu             sync.Mutex
	ringing, again bool
	listening      int
}

func (b *Inbox) ring(ctx context.Context) {
	notifier := b.notifier()
	notifier.mu.Lock()
	defer notifier.mu.Unlock()
	notifier.again = b.options.Notify
	if !notifier.again || notifier.ringing {
		return
	}
	notifier.ringing = true
	ctx = context.WithoutCancel(ctx)
	go func() {
		for notifier.rings() {
			_ = safely.Call[lending.PanicError](func() error { // those who are not told look by themselves
				ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
				defer cancel()
				return b.retry(ctx, func(conn *pgxpool.Conn) error {
					_, err := conn.Exec(ctx, notify, b.channel())
					return err
				})
			})
			<-time.After(20 * time.Millisecond)
		}
	}()
}

// rings reports whether to tell, and if not that nobody does.
func (b *notifier) rings() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ringing = b.again
	b.again = false
	return b.ringing
}
