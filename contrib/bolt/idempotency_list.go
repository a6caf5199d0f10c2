package lendingbolt

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/lendingapi/lending-go/idempotency/store"
	"go.etcd.io/bbolt"
)

// List implements [store.Store].
func (s *IdempotencyStore) List(ctx context.Context, filter store.Filter) ([]store.Entry, error) {
	after, key, err := filter.After.At()
	if err != nil {
		return nil, err
	}
	return within(ctx, func() (page []store.Entry, err error) {
		err = s.file().view(func(tx *bbolt.Tx) error {
			l := listing{ctx, tx, filter, found{at: after, key: key}, s.clock().now()}
			all, isAll := l.ofPrefix()
			if !isAll {
				all = l.ofStates()
			}
			slices.SortFunc(all, found.compare)
			page = l.page(all[:min(len(all), max(0, filter.Limit))])
			return ctx.Err()
		})
		return page, err
	})
}

type listing struct {
	ctx    context.Context //nolint:containedctx // of the call of List
	tx     *bbolt.Tx
	filter store.Filter
	after  found
	now    uint64
}

type found struct {
	at    uint64
	key   string
	state string
}

func (f found) compare(other found) int {
	return cmp.Or(cmp.Compare(f.at, other.at), strings.Compare(f.key, other.key))
}

// narrow is the largest number of entries of a prefix for which List reads all of them.
const narrow = 1000

// ofPrefix returns all entries that the filter selects, if few keys have the prefix.
func (l *listing) ofPrefix() (all []found, isAll bool) {
	prefix, n := []byte(l.filter.Prefix), 0
	cursor := l.tx.Bucket(entryBucket).Cursor()
	for key, value := cursor.Seek(prefix); key != nil && bytes.HasPrefix(key, prefix); key, value = cursor.Next() {
		r, err := readRecord(value)
		if n++; n > narrow || err != nil { // only stateBucket knows the time of an unreadable entry
			return nil, false
		}
		f := found{r.at, string(key), r.state}
		isOld := age(r.at, l.now) >= l.filter.Older
		if isOld && slices.Contains(l.filter.States, store.State(r.state)) && f.compare(l.after) > 0 {
			all = append(all, f)
		}
	}
	return all, true
}

// ofStates returns the oldest entries of each state, as many as the limit.
func (l *listing) ofStates() (all []found) {
	for _, state := range slices.Compact(slices.Sorted(slices.Values(l.filter.States))) {
		prefix, n := append([]byte(state), 0), 0
		cursor := l.tx.Bucket(stateBucket).Cursor()
		from := listed(string(state), l.after.at, l.after.key)
		for at, _ := cursor.Seek(from); n < l.filter.Limit && bytes.HasPrefix(at, prefix); at, _ = cursor.Next() {
			f := found{binary.BigEndian.Uint64(at[len(prefix):]), string(at[len(prefix)+8:]), string(state)}
			if l.ctx.Err() != nil || age(f.at, l.now) < l.filter.Older {
				break // the next entries are younger
			}
			if strings.HasPrefix(f.key, l.filter.Prefix) && !bytes.Equal(at, from) {
				all = append(all, f)
				n++
			}
		}
	}
	return all
}

// page reads the entries until their data fill a page.
func (l *listing) page(all []found) (page []store.Entry) {
	size := 0
	for _, f := range all {
		r, err := readRecord(l.tx.Bucket(entryBucket).Get([]byte(f.key)))
		if err != nil {
			r = record{at: f.at, state: f.state}
		}
		if size += len(r.data); size > store.PageBytes && len(page) > 0 {
			break
		}
		page = append(page, r.entry(f.key, l.now))
	}
	return page
}
