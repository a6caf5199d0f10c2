package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lendingapi/lending-go/webhook"
)

// Deduper tests the contract of a [webhook.Deduper]. The place function makes an empty place,
// for example a table, and returns a function that opens a deduper with the given options there.
// The suite calls open several times, like several processes. Dedupers that are open at the same
// time must share their keys.
func Deduper(t *testing.T, place func(t *testing.T, opts *webhook.DeduperOptions) (open func() webhook.Deduper)) {
	t.Helper()
	for _, rule := range deduperRules() {
		t.Run(rule.name, func(t *testing.T) {
			rule.check(t, func(opts *webhook.DeduperOptions) func() webhook.Deduper { return place(t, opts) })
		})
	}
}

type deduperPlace func(*webhook.DeduperOptions) (open func() webhook.Deduper)

func deduperRules() []rule[deduperPlace] {
	lasting := webhook.DeduperOptions{Lease: long, Keep: long}
	var rules []rule[deduperPlace]
	for _, r := range []struct {
		name  string
		opts  webhook.DeduperOptions
		check func(d deduper)
	}{
		{"a key is claimed once", lasting, deduper.claimedOnce},
		{"a released key is free", lasting, deduper.released},
		{"a done key is a duplicate", lasting, deduper.done},
		{"a claim expires", webhook.DeduperOptions{Lease: short, Keep: long}, deduper.ends},
		{"a done key outlasts its claim", webhook.DeduperOptions{Lease: short, Keep: long}, deduper.outlasts},
		{"Done counts after the claim has expired", webhook.DeduperOptions{Lease: short, Keep: long}, deduper.lateDone},
		{"Release does not end the claim of another", webhook.DeduperOptions{Lease: short, Keep: long}, deduper.lateRelease},
		{"a done key is forgotten after Keep", webhook.DeduperOptions{Lease: short / 3, Keep: short}, deduper.forgets},
		{"keys differ in every byte", lasting, deduper.keys},
		{"processes share the keys", lasting, deduper.shared},
		{"one of many parallel Claims succeeds", lasting, deduper.oneOfMany},
		{"Claim fails when its context has ended", lasting, deduper.context},
		{"a cancelled Claim leaves the key free", lasting, deduper.abandoned},
	} {
		rules = append(rules, rule[deduperPlace]{r.name, func(tb testing.TB, place deduperPlace) {
			tb.Helper()
			open := place(&r.opts)
			r.check(deduper{tb, r.opts, open, open()})
		}})
	}
	return rules
}

// deduper is a deduper under test.
type deduper struct {
	testing.TB
	opts    webhook.DeduperOptions
	open    func() webhook.Deduper
	deduper webhook.Deduper
}

func (d deduper) claim(key, why string) webhook.Claim {
	d.Helper()
	claim, err := d.deduper.Claim(d.Context(), key)
	if err != nil || claim == nil {
		d.Fatalf("Claim of key %.40q: got %v and error %v, want a claim: %s", key, claim, err, why)
	}
	return claim
}

func (d deduper) refused(key string, want error, why string) {
	d.Helper()
	if _, err := d.deduper.Claim(d.Context(), key); !errors.Is(err, want) {
		d.Fatalf("Claim of key %.40q: got error %v, want %s: %s", key, err, nameOf(want), why)
	}
}

func nameOf(err error) string {
	if errors.Is(err, webhook.ErrClaimed) {
		return "ErrClaimed"
	}
	return "ErrDuplicate"
}

// comes waits until Claim succeeds for a key. Until then Claim must return before.
func (d deduper) comes(key string, before error, why string) (claim webhook.Claim) {
	d.Helper()
	var err error
	if !eventually(func() bool {
		claim, err = d.deduper.Claim(d.Context(), key)
		if err != nil && !errors.Is(err, before) {
			d.Fatalf("Claim of key %.40q: got error %v, want %s or success", key, err, nameOf(before))
		}
		return err == nil
	}) {
		d.Fatalf("Claim of key %.40q: still %s after %v: %s", key, nameOf(before), patience, why)
	}
	return claim
}

func (d deduper) told(what string, tell func(context.Context) error) {
	d.Helper()
	if err := tell(d.Context()); err != nil {
		d.Fatalf("%s: got error %v, want none", what, err)
	}
}

func (d deduper) claimedOnce() {
	d.claim("a", "it is free")
	d.refused("a", webhook.ErrClaimed, "it is claimed")
	d.claim("b", "it is another key")
	d.refused("a", webhook.ErrClaimed, "it is claimed still")
}

func (d deduper) released() {
	claim := d.claim("a", "it is free")
	d.told("Release", claim.Release)
	d.told("Release a second time", claim.Release)
	d.claim("a", "it was released")
	d.refused("a", webhook.ErrClaimed, "it is claimed again")
}

func (d deduper) done() {
	claim := d.claim("a", "it is free")
	d.told("Done", claim.Done)
	d.refused("a", webhook.ErrDuplicate, "it is done")
	d.told("Done a second time", claim.Done)
	d.told("Release after Done", claim.Release)
	d.refused("a", webhook.ErrDuplicate, "what is done does not become free by Release")
	d.claim("b", "another key is done")
}

func (d deduper) ends() {
	start := time.Now()
	d.claim("a", "it is free")
	d.comes("a", webhook.ErrClaimed, "the claim lasts for "+d.opts.Lease.String())
	if took := time.Since(start); took < d.opts.Lease-slack {
		d.Fatalf("Claim succeeded %v after another, which lasts for %v", took, d.opts.Lease)
	}
}

func (d deduper) outlasts() {
	d.told("Done", d.claim("a", "it is free").Done)
	wait(d.opts.Lease + d.opts.Lease/2)
	d.refused("a", webhook.ErrDuplicate, "what is done is remembered for Keep, not for Lease")
}

func (d deduper) lateDone() {
	for key, again := range map[string]bool{"ended": false, "claimed by another": true} {
		first := d.claim(key, "it is free")
		wait(d.opts.Lease + d.opts.Lease/2)
		var second webhook.Claim
		if again {
			second = d.comes(key, webhook.ErrClaimed, "the first claim has ended")
		}
		d.told("Done after the claim has ended", first.Done)
		d.refused(key, webhook.ErrDuplicate, "the owner of the first claim has acted, after the claim had ended")
		if again {
			d.told("Release of the second claim", second.Release)
			d.refused(key, webhook.ErrDuplicate, "what another has done does not become free by Release")
		}
	}
}

// lateRelease repeats its check if the machine was slower than the lease of the second claim.
func (d deduper) lateRelease() {
	for range 10 {
		first := d.claim("a", "it is free")
		wait(d.opts.Lease + d.opts.Lease/2)
		start := time.Now()
		second := d.comes("a", webhook.ErrClaimed, "the first claim has ended")
		d.told("Release after the claim has ended", first.Release)
		_, err := d.deduper.Claim(d.Context(), "a")
		if time.Since(start) < d.opts.Lease {
			if !errors.Is(err, webhook.ErrClaimed) {
				d.Fatalf("Claim: got error %v, want ErrClaimed: the owner of an earlier claim, which had ended, has released the claim of another", err)
			}
			return
		}
		d.told("Release", second.Release)
		d.comes("a", webhook.ErrClaimed, "every claim has ended")
		wait(d.opts.Lease + d.opts.Lease/2)
	}
	d.Log("not tested: the machine was too slow")
}

func (d deduper) forgets() {
	claim, start := d.claim("a", "it is free"), time.Now()
	d.told("Done", claim.Done)
	d.comes("a", webhook.ErrDuplicate, "what is done is forgotten after "+d.opts.Keep.String())
	if took := time.Since(start); took < d.opts.Keep-slack {
		d.Fatalf("Claim succeeded %v after Done, which is remembered for %v", took, d.opts.Keep)
	}
}

func (d deduper) keys() {
	for _, key := range []string{"a", "A", "a ", " a", "ä", "a\u0308", "a%", "a_", "a*", "a:b", "{a}", "'a'", strings.Repeat("x", 255), strings.Repeat("x", 256)} {
		d.told("Done", d.claim(key, "only others were claimed").Done)
		d.refused(key, webhook.ErrDuplicate, "it is done")
	}
}

func (d deduper) shared() {
	other := deduper{d.TB, d.opts, d.open, d.open()}
	claim := d.claim("a", "it is free")
	other.refused("a", webhook.ErrClaimed, "another process has claimed it")
	d.told("Release", claim.Release)
	claim = other.claim("a", "another process has released it")
	d.refused("a", webhook.ErrClaimed, "another process has claimed it")
	d.told("Done", claim.Done)
	d.refused("a", webhook.ErrDuplicate, "another process has done it")
}

func (d deduper) oneOfMany() {
	dedupers := []webhook.Deduper{d.deduper, d.open()}
	for _, key := range []string{"a", "b", "c", "d", "e"} {
		var won atomic.Int32
		const claimants = 16
		atOnce(claimants, func(i int) {
			_, err := dedupers[i%2].Claim(d.Context(), key)
			switch {
			case err == nil:
				won.Add(1)
			case !errors.Is(err, webhook.ErrClaimed):
				d.Errorf("Claim by one of many: got error %v, want ErrClaimed or success", err)
			}
		})
		if n := won.Load(); n != 1 {
			d.Fatalf("%d of %d that claimed a key at once have it, want 1", n, claimants)
		}
	}
}

func (d deduper) context() {
	ctx, cancel := context.WithCancel(d.Context())
	cancel()
	if !returns(func() {
		if _, err := d.deduper.Claim(ctx, "a"); !errors.Is(err, context.Canceled) {
			d.Errorf("Claim with a context that was cancelled: got error %v, want %q", err, context.Canceled)
		}
	}) {
		d.Fatalf("Claim has not returned %v after the end of its context", patience)
	}
	d.claim("b", "another key was claimed in vain")
}

// abandoned ends the context of a Claim at various moments of the call.
func (d deduper) abandoned() {
	start := time.Now()
	d.claim("a", "it is free")
	took := max(time.Since(start), time.Millisecond)
	const moments = 40
	for n := range moments {
		key := fmt.Sprint("key ", n)
		ctx, cancel := context.WithTimeout(d.Context(), 2*took*time.Duration(n)/moments)
		_, err := d.deduper.Claim(ctx, key)
		cancel()
		if err != nil {
			d.comes(key, webhook.ErrClaimed, "the Claim before has failed when its context ended, and nobody has the claim")
		}
	}
}
