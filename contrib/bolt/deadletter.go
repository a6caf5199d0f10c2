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
	"unicode"
	"unicode/utf8"

	"github.com/lendingapi/lending-go"
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
	letter.ID = strconv.FormatUint(binary.BigEndian.Uint64(key), 10) + "-" + strconv.FormatUint(binary.BigEndian.Uint64(key[8:]), 10)
	letter.SetAside = timeOf(key).UTC()
	return letter, err
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

// mayHave reports whether the JSON of a dead letter can be of an event. It saves the decoding of
// thousands of others.
func mayHave(value []byte, event lending.EventName) bool {
	plain := !strings.ContainsFunc(string(event), func(c rune) bool {
		return c != '_' && (c >= utf8.RuneSelf || !unicode.IsLetter(c) && !unicode.IsDigit(c)) // JSON may escape it
	})
	return !plain || bytes.Contains(value, []byte(event))
}

// DeadLetters implements [webhook.DeadLetters].
func (b *Inbox) DeadLetters(ctx context.Context, filter webhook.DeadLetterFilter) (page []webhook.DeadLetter, err error) {
	filter = filter.WithDefaults()
	after := keyOfLetter(filter.After)
	from := join(filter.From, nil)
	if bytes.Compare(from, after) < 0 {
		from = after
	}
	err = b.file().view(func(tx *bbolt.Tx) error {
		cursor := tx.Bucket(dead).Cursor()
		for key, value := cursor.Seek(from); key != nil && len(page) < filter.Limit; key, value = cursor.Next() {
			if !mayHave(value, filter.Event) {
				continue
			}
			letter, err := letterOf(key, value)
			if err := errors.Join(err, ctx.Err()); err != nil {
				return err
			}
			if filter.Matches(letter) && !bytes.Equal(key, after) {
				page = append(page, letter)
			}
		}
		return nil
	})
	return page, err
}

// DeadLetterEvent implements [webhook.DeadLetters].
func (b *Inbox) DeadLetterEvent(_ context.Context, id string) (event *webhook.Event, err error) {
	err = b.file().view(func(tx *bbolt.Tx) error {
		key := keyOfLetter(id)
		if key == nil || tx.Bucket(dead).Get(key) == nil {
			return webhook.ErrNoDeadLetter
		}
		entry, _ := entryOf(tx, key[8:], 0) // the cause tells why Parse rejects the bytes
		event = entry.Event
		return nil
	})
	return event, err
}

// Redrive implements [webhook.DeadLetters].
func (b *Inbox) Redrive(ctx context.Context, ids ...string) (int, error) {
	if err := claimer.CheckRedrive(ids); err != nil {
		return 0, err
	}
	letters, err := b.end(ctx, ids, func(tx *bbolt.Tx, number []byte) error {
		return tx.Bucket(waiting).Put(join(time.Now(), number), bytesOf(0))
	})
	b.claims().LookIn(0)
	return len(letters), err
}

// Drop implements [webhook.DeadLetters].
func (b *Inbox) Drop(ctx context.Context, who string, ids ...string) (int, error) {
	if err := claimer.CheckDrop(who, ids); err != nil {
		return 0, err
	}
	keys, err := b.end(ctx, ids, func(tx *bbolt.Tx, number []byte) error {
		return tx.Bucket(bodies).Delete(number)
	})
	claimer.LogDrop(ctx, b.logger(), who, keys)
	return len(keys), err
}

// end removes dead letters and calls then for each, in the same transaction. It returns the keys
// of their events.
func (b *Inbox) end(ctx context.Context, ids []string, then func(tx *bbolt.Tx, number []byte) error) (keys []string, err error) {
	err = b.update(ctx, func(tx *bbolt.Tx) (bool, error) {
		keys = nil // the function may run again
		for _, id := range ids {
			key := keyOfLetter(id)
			value := tx.Bucket(dead).Get(key)
			if key == nil || value == nil {
				continue
			}
			letter, err := letterOf(key, value)
			if err := errors.Join(err, tx.Bucket(dead).Delete(key), then(tx, key[8:])); err != nil {
				return false, err
			}
			keys = append(keys, letter.Key)
		}
		return len(keys) > 0, nil
	})
	if err != nil {
		return nil, err
	}
	return keys, nil
}
