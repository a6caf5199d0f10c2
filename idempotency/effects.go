package idempotency

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/format"
)

// rememberLimit bounds the save of remember.
const rememberLimit = 2 * time.Second

// lockData is the content of the entry of a lock, or of the entry of the salt.
type lockData struct {
	Format  format.Version `json:"format"`
	Salt    string         `json:"salt,omitempty"`
	Effects []effect       `json:"effects,omitempty"`

	unknown format.Unknown
}

// effect holds the records after a mutation.
type effect struct {
	snapshot

	Age time.Duration `json:"age,omitempty"` // at the time of the save

	unknown format.Unknown
}

type plainEffect effect

func (e effect) MarshalJSON() ([]byte, error) { return e.unknown.Encode((*plainEffect)(&e)) }

func (e *effect) UnmarshalJSON(text []byte) (err error) {
	e.unknown, err = format.Decode(text, (*plainEffect)(e))
	return err
}

func readLock(text []byte) (d lockData, err error) {
	d.unknown, err = decode(text, &d, &d.Format)
	return d, err
}

func (d *lockData) bytes() []byte {
	d.Format = formatVersion
	text, _ := d.unknown.Encode(d) // every field can be encoded
	return text
}

// effects keeps the records after the last mutations of each lock.
type effects struct {
	entries     store.Store
	namespace   string
	maxLateness time.Duration
	salt        atomic.Pointer[string] // nil until the log has read it
}

// readSalt returns the salt that the logs of the namespace share. The first log saves the salt
// as the data of an entry, which an encrypted store encrypts.
func (e *effects) readSalt(ctx context.Context) (string, error) {
	if salt := e.salt.Load(); salt != nil {
		return *salt, nil
	}
	saved, err := e.entries.Load(ctx, e.namespace+"!")
	if err == nil && saved == nil {
		first := lockData{Salt: rand.Text()}
		saved = &store.Entry{Key: e.namespace + "!", State: store.Done, Data: first.bytes()}
		err = e.entries.Save(ctx, *saved) // after a conflict the caller starts again
	}
	if err != nil {
		return "", err
	}
	data, err := readLock(saved.Data)
	if err == nil && data.Salt == "" {
		err = store.ErrCorrupt
	}
	if err == nil {
		e.salt.Store(&data.Salt)
	}
	return data.Salt, err
}

// saltAge returns the age of the entry of the salt.
func (e *effects) saltAge(ctx context.Context) (time.Duration, error) {
	if _, err := e.readSalt(ctx); err != nil {
		return 0, err
	}
	saved, err := e.entries.Load(ctx, e.namespace+"!")
	if err != nil || saved == nil {
		return 0, err
	}
	return saved.Age, nil
}

// recall returns the records of the last mutations of a lock. It drops them after MaxLateness,
// when reads show them. An encrypted store leaves keys readable: without the salt nobody can confirm a
// guessed lock.
func (e *effects) recall(ctx context.Context, lock string) (entry store.Entry, data lockData, err error) {
	salt, err := e.readSalt(ctx)
	if err != nil {
		return entry, data, err
	}
	sum := hmac.New(sha256.New, []byte(salt))
	_, _ = io.WriteString(sum, lock)
	entry.Key = e.namespace + "#" + hex.EncodeToString(sum.Sum(nil))
	saved, err := e.entries.Load(ctx, entry.Key)
	if err != nil || saved == nil {
		return entry, data, err
	}
	data, err = readLock(saved.Data)
	for i := range data.Effects {
		data.Effects[i].Age += saved.Age
	}
	isShown := func(last effect) bool { return last.Age >= e.maxLateness }
	data.Effects = slices.DeleteFunc(data.Effects, isShown)
	return *saved, data, err
}

// remember saves the records after a mutation, before the mutation frees its lock.
func (e *effects) remember(ctx context.Context, lock string, after snapshot) error {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), rememberLimit)
	defer stop()
	err := store.ErrConflict
	for turn := 0; turn < maxTurns && errors.Is(err, store.ErrConflict); turn++ {
		entry, data, failed := e.recall(ctx, lock)
		if err = failed; err == nil {
			data.Effects = append(data.Effects, effect{snapshot: after})
			entry.State, entry.Data = store.Free, data.bytes()
			err = e.entries.Save(ctx, entry)
		}
	}
	return err
}

// including adds the records after earlier mutations to s. A late read may not show these records
// yet; without them, they would later look like the effect of this mutation.
func (s snapshot) including(effects []effect) snapshot {
	if s.Count < 0 || len(effects) == 0 {
		return s
	}
	var ids []string
	isCounted, count := true, s.Count
	for _, e := range effects {
		isCounted, count = isCounted && e.Count >= 0, max(count, e.Count)
		ids = append(ids, e.IDs...)
	}
	isLate := func(id string) bool { return !slices.Contains(s.IDs, id) }
	switch {
	case isCounted:
		s.Count = count
	case len(ids) == 0 || slices.ContainsFunc(ids, isLate):
		s.Count = -1
	}
	s.IDs = slices.Concat(s.IDs, ids)
	return s
}
