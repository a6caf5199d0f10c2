package lendingbolt

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/lendingapi/lending-go/internal/claimer"
	"github.com/lendingapi/lending-go/webhook"
	"go.etcd.io/bbolt"
)

var _ webhook.DeadLetters = (*Inbox)(nil)

// DeadLetter implements [webhook.Inbox].
func (b *Inbox) DeadLetter(ctx context.Context, entry *webhook.InboxEntry, cause error) error {
	return b.move(ctx, entry, func(tx *bbolt.Tx, number []byte, _ uint32) error {
		return setAside(tx, number, entry, cause)
	})
}

// setAside adds a dead letter. Its key consists of its time and the event's number.
func setAside(tx *bbolt.Tx, number []byte, entry *webhook.InboxEntry, cause error) error {
	text, err := json.Marshal(webhook.NewDeadLetter(entry, cause))
	if err != nil {
		return err
	}
	return tx.Bucket(dead).Put(join(time.Now(), number), text)
}

func letterOf(key, value []byte) (letter webhook.DeadLetter, err error) {
	err = json.Unmarshal(value, &letter)
	letter.ID, letter.SetAside = idOfLetter(key), timeOf(key).UTC()
	return letter, err
}

func idOfLetter(key []byte) string {
	return strconv.FormatUint(binary.BigEndian.Uint64(key), 10) + "-" + strconv.FormatUint(binary.BigEndian.Uint64(key[8:]), 10)
}

// keyOfLetter returns the key of a dead letter, or nil for an invalid ID.
func keyOfLetter(id string) []byte {
	first, second, _ := strings.Cut(id, "-")
	nanoseconds, err := strconv.ParseUint(first, 10, 64)
	number, failed := strconv.ParseUint(second, 10, 64)
	if err != nil || failed != nil {
		return nil
	}
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, nanoseconds), number)
}

// DeadLetters implements [webhook.DeadLetters].
func (b *Inbox) DeadLetters(ctx context.Context, filter webhook.DeadLetterFilter) (page []webhook.DeadLetter, err error) {
	filter = filter.WithDefaults()
	err = b.file().view(func(tx *bbolt.Tx) error {
		cursor := tx.Bucket(dead).Cursor()
		key, value := cursor.Last()
		if after := keyOfLetter(filter.After); after != nil && key != nil && bytes.Compare(key, after) >= 0 {
			cursor.Seek(after)
			key, value = cursor.Prev()
		}
		for ; key != nil && len(page) < filter.Limit; key, value = cursor.Prev() {
			letter, err := letterOf(key, value)
			if err := errors.Join(err, ctx.Err()); err != nil {
				return err
			}
			if filter.Matches(letter) {
				page = append(page, letter)
			}
		}
		return nil
	})
	return page, err
}

// DeadLetterEvent implements [webhook.DeadLetters].
func (b *Inbox) DeadLetterEvent(_ context.Context, id string) (*webhook.Event, error) {
	var event *webhook.Event
	err := b.file().view(func(tx *bbolt.Tx) error {
		key := keyOfLetter(id)
		if key == nil || tx.Bucket(dead).Get(key) == nil {
			return webhook.ErrNoDeadLetter
		}
		entry, err := b.entryOf(tx, key[8:], 0)
		if event = entry.Event; event == nil {
			return err
		}
		return nil // the cause tells why Parse rejects the bytes
	})
	return event, err
}

// Redrive implements [webhook.DeadLetters].
func (b *Inbox) Redrive(ctx context.Context, ids ...string) (int, error) {
	if err := claimer.CheckRedrive(ids); err != nil {
		return 0, err
	}
	redriven, err := b.end(ctx, ids, func(tx *bbolt.Tx, number []byte, _ webhook.DeadLetter) error {
		return tx.Bucket(waiting).Put(join(time.Now(), number), bytesOf(0))
	})
	b.claims().LookIn(0)
	return redriven, err
}

// Drop implements [webhook.DeadLetters].
func (b *Inbox) Drop(ctx context.Context, by webhook.Decision, ids ...string) (int, error) {
	if err := claimer.CheckDrop(by.By, by.Why, ids); err != nil {
		return 0, err
	}
	return b.end(ctx, ids, func(tx *bbolt.Tx, number []byte, letter webhook.DeadLetter) error {
		return removeEvent(tx, number, webhook.NewRemoved(by, letter.ID, letter.Key, letter.Event))
	})
}

// end removes dead letters and calls then for each, in the same transaction. It returns their
// number.
func (b *Inbox) end(
	ctx context.Context, ids []string, then func(tx *bbolt.Tx, number []byte, letter webhook.DeadLetter) error,
) (ended int, err error) {
	err = b.update(ctx, func(tx *bbolt.Tx) (bool, error) {
		ended = 0 // the function may run again
		for _, id := range ids {
			key := keyOfLetter(id)
			value := tx.Bucket(dead).Get(key)
			if key == nil || value == nil {
				continue
			}
			letter, err := letterOf(key, value)
			if err := errors.Join(err, tx.Bucket(dead).Delete(key), then(tx, key[8:], letter)); err != nil {
				return false, err
			}
			ended++
		}
		return ended > 0, nil
	})
	if err != nil {
		return 0, err
	}
	return ended, nil
}

// removeEvent removes the event itself and keeps who did so.
func removeEvent(tx *bbolt.Tx, number []byte, trace webhook.Removed) error {
	text, err := json.Marshal(trace)
	if err != nil {
		return err
	}
	n, err := tx.Bucket(removed).NextSequence()
	return errors.Join(err, tx.Bucket(bodies).Delete(number),
		tx.Bucket(removed).Put(binary.BigEndian.AppendUint64(nil, n), text))
}

// Erase implements [webhook.DeadLetters] in a single transaction. The removed bytes stay in free
// pages of the file until new data replace them; "bbolt compact" copies a file without them.
func (b *Inbox) Erase(ctx context.Context, by webhook.Decision, ids ...string) (erased int, err error) {
	if err := claimer.CheckErase(by.By, by.Why, ids); err != nil {
		return 0, err
	}
	var unreadable error
	err = b.update(ctx, func(tx *bbolt.Tx) (bool, error) {
		erased, unreadable = 0, nil // the function may run again
		traces := map[string]webhook.Removed{}
		_ = tx.Bucket(bodies).ForEach(func(number, _ []byte) error {
			entry, err := b.entryOf(tx, number, 0)
			if entry.Event == nil {
				unreadable = err
			} else if entry.Event.Mentions(ids...) {
				traces[string(number)] = webhook.NewRemoved(by, "", entry.Event.Key(), entry.Event.Name)
			}
			return nil
		})
		for _, bucket := range [][]byte{waiting, running, dead} {
			var keys [][]byte
			_ = tx.Bucket(bucket).ForEach(func(key, _ []byte) error {
				if _, erases := traces[string(key[len(key)-8:])]; erases {
					keys = append(keys, bytes.Clone(key))
				}
				return nil
			})
			for _, key := range keys {
				number := key[len(key)-8:]
				trace := traces[string(number)]
				if bytes.Equal(bucket, dead) {
					trace.ID = idOfLetter(key)
				}
				if err := errors.Join(tx.Bucket(bucket).Delete(key), removeEvent(tx, number, trace)); err != nil {
					return false, err
				}
				erased++
			}
		}
		return erased > 0, nil
	})
	if err != nil {
		return 0, err
	}
	return erased, unreadable
}

// Removed implements [webhook.DeadLetters].
func (b *Inbox) Removed(_ context.Context, limit int) (newest []webhook.Removed, err error) {
	err = b.file().view(func(tx *bbolt.Tx) error {
		cursor := tx.Bucket(removed).Cursor()
		for key, value := cursor.Last(); key != nil && len(newest) < claimer.Limit(limit); key, value = cursor.Prev() {
			var trace webhook.Removed
			if err := json.Unmarshal(value, &trace); err != nil {
				return err
			}
			newest = append(newest, trace)
		}
		return nil
	})
	return newest, err
}
