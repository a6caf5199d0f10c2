package idempotency

import (
	"context"
	"errors"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/format"
)

// DifferenceKind is the kind of a [Difference].
type DifferenceKind string

// The kinds of differences.
const (
	Missing     DifferenceKind = "missing"     // a key is done, and the service does not show its record
	Shared      DifferenceKind = "shared"      // several keys claim the same record
	Unexplained DifferenceKind = "unexplained" // the service shows a record of no key
	Open        DifferenceKind = "open"        // a key is neither done nor rejected after a day
	Unread      DifferenceKind = "unread"      // the owner could not be compared: the audit is incomplete
)

// Difference is a difference between the log and the service: see [Log.Audit].
type Difference struct {
	Kind    DifferenceKind `json:"kind"`
	Owner   string         `json:"owner,omitempty"`   // customer, application or loan
	ID      string         `json:"id,omitempty"`      // of the owner
	List    string         `json:"list,omitempty"`    // applications, loans, applicants, offers or withdrawals
	Count   int            `json:"count,omitempty"`   // of records
	Keys    []string       `json:"keys,omitempty"`    // the keys, or those among which a record is missing
	Records []string       `json:"records,omitempty"` // the ids of the records, or of those among which some have no key
	Why     string         `json:"why,omitempty"`     // why an owner is unread, or a key is open
}

// AuditOptions are the options of [Log.Audit].
type AuditOptions struct {
	// From and To choose the owners: the customers, applications and loans in the requests of the keys
	// whose last change is not before From, and before To. Both are required.
	From, To time.Time
	Client   *lending.Client // required: makes the reads
	Wait     time.Duration   // the wait before each read
}

// AuditResult is the result of a complete pass of an audit: see [Log.Audit].
type AuditResult struct {
	From time.Time     `json:"from"`
	To   time.Time     `json:"to"`
	Age  time.Duration `json:"-"` // since the end of the audit, by the clock of the store

	Keys   int `json:"keys"`   // with their last change between From and To
	Owners int `json:"owners"` // in the requests of these keys

	Found       map[DifferenceKind]int `json:"found,omitempty"`       // the number of differences
	Differences []Difference           `json:"differences,omitempty"` // the first 100
	// NotAuditable is the number of keys without a read, by their method and path template, and of
	// owners of which the log has forgotten a key.
	NotAuditable map[string]int `json:"notAuditable,omitempty"`
}

// audits is the content of the entry of the audits, which is kept beside the instructions.
type audits struct {
	Format format.Version `json:"format"`
	Last   *AuditResult   `json:"last,omitempty"`
	Ended  time.Duration  `json:"ended,omitempty"` // from the end of the last audit to the save
	Until  time.Time      `json:"until,omitzero"`  // the To of the last daily audit
	Runs   bool           `json:"runs,omitempty"`  // a replica makes the daily audit

	unknown format.Unknown
}

// Audited returns the result of the last audit in any replica, or nil before the first.
func (l *Log) Audited(ctx context.Context) (*AuditResult, error) {
	all, _, err := l.settings().audits(ctx)
	return all.Last, storeError(err)
}

// audits reads the entry of the audits.
func (s *settings) audits(ctx context.Context) (all audits, entry store.Entry, err error) {
	entry.Key = s.Namespace + "!audit"
	saved, err := s.store.Load(ctx, entry.Key)
	if err != nil || saved == nil {
		return all, entry, err
	}
	all.unknown, err = decode(saved.Data, &all)
	if all.Last != nil {
		all.Ended += saved.Age
		all.Last.Age = all.Ended
	}
	return all, *saved, err
}

// saveAudits saves the entry of the audits, unless another call has changed it.
func (s *settings) saveAudits(ctx context.Context, entry store.Entry, all audits) error {
	all.Format, entry.State = formatVersion, store.Done
	entry.Data, _ = all.unknown.Encode(&all) // every field can be encoded
	return s.store.Save(ctx, entry)
}

// changeAudits saves a change of the entry of the audits.
func (s *settings) changeAudits(ctx context.Context, change func(*audits)) error {
	err := store.ErrConflict
	for turn := 0; turn < maxTurns && errors.Is(err, store.ErrConflict); turn++ {
		all, entry, failed := s.audits(ctx)
		if failed != nil {
			return failed
		}
		change(&all)
		err = s.saveAudits(ctx, entry, all)
	}
	return err
}
