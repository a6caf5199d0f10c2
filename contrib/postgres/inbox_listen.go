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

// channel returns a name of this inbox that needs no quotes.
func (b *Inbox) channel() string {
	sum := sha256.Sum256([]byte(b.table("inbox") + "\x00" + b.name))
	return "lending_" + hex.EncodeToString(sum[:16])
}

// Listen lets this process take events as soon as another process has put them, until ctx ends.
// Listen is only a speed-up. The processes that put events need [InboxOptions.Notify]. Listen
// opens a connection of its own, directly to the server, with config, or with the configuration
// of the pool if config is nil.
//
//	go inbox.Listen(ctx, nil)
//
// While Listen is connected, the inbox asks for events only every 15 times Poll. After a broken
// connection Listen connects again within 10 s.
//
// LISTEN does not work through a pooler in transaction mode. Listen detects this within 5 s with
// a notification to itself. The inbox then asks every Poll as usual, and Listen tries again
// after up to 10 s.
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
		return err // a pooler in transaction mode delivers no notification
	}
	connected()
	b.listens(1)
	defer b.listens(-1)
	for {
		b.claims().LookIn(0) // events may have come before the connection
		waiting, cancel := context.WithTimeout(ctx, 30*time.Second)
		_, err := conn.WaitForNotification(waiting)
		cancel()
		if err != nil && ctx.Err() == nil && waiting.Err() != nil { // the connection may be broken without a sign
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

// listens counts the connections of Listen. While there is a connection, the inbox asks less
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

// notifier sends notifications to the processes that listen. A transaction with a notification
// waits for all other such transactions, so a notification serves all events that are put while
// it is sent, and shortly after.
type notifier struct {
	mu             sync.Mutex
	sending, again bool
	listening      int
}

// notify notifies the processes that listen, in the background.
func (b *Inbox) notify(ctx context.Context) {
	if !b.options.Notify || !b.notifier().start() {
		return
	}
	ctx = context.WithoutCancel(ctx)
	go func() {
		for b.notifier().next() {
			_ = safely.Call[lending.PanicError](func() error { // without a notification, processes ask every Poll
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

// start requests a notification, and reports whether the caller must send it.
func (n *notifier) start() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	first := !n.sending
	n.sending, n.again = true, true
	return first
}

// next reports whether another notification was requested since the last.
func (n *notifier) next() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sending, n.again = n.again, false
	return n.sending
}
