package lendingredis_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/lendingapi/lending-go/webhook"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	lendingredis "github.com/lendingapi/lending-go/contrib/redis"
)

// panics is a caller's hook that panics a few times.
type panics struct {
	redis.Hook
	times atomic.Int32
	ended chan struct{} // closed by the last of them
}

func (p *panics) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		switch left := p.times.Add(-1); {
		case left == 0:
			close(p.ended)
			fallthrough
		case left > 0:
			panic("hook")
		}
		return next(ctx, command)
	}
}
func (p *panics) DialHook(next redis.DialHook) redis.DialHook { return next }
func (p *panics) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// After a panic during Take, all workers continue.
func TestInboxOutlivesAHookThatPanics(t *testing.T) {
	client := startRedis(t).client()
	inbox, err := lendingredis.NewInbox(t.Context(), client, "inbox", nil)
	require.NoError(t, err)
	hook := &panics{ended: make(chan struct{})}
	hook.times.Store(3)
	client.AddHook(hook)
	acted := make(chan struct{})
	go webhook.Work(t.Context(), inbox, func(context.Context, *webhook.Event) error {
		acted <- struct{}{}
		return nil
	}, nil)
	<-hook.ended
	event, err := webhook.Parse([]byte(`{"webhookEvent":"a"}`))
	require.NoError(t, err)
	require.NoError(t, inbox.Put(t.Context(), event))
	<-acted
}
