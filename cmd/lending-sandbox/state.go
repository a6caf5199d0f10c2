package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/lendingapi/lending-go/internal/format"
	"github.com/lendingapi/lending-go/internal/page"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/lendingtest/control"
)

// kept is the content of the file of -state: the records, tokens and codes, and the change of
// the clock.
type kept struct {
	Version  format.Version       `json:"v,omitempty"` // 1 without a version
	Ahead    string               `json:"ahead"`       // of this machine's clock, such as "1h0m0s"
	Running  bool                 `json:"running"`     // whether the sandbox went on after this save
	Snapshot lendingtest.Snapshot `json:"snapshot"`
}

// taught reads the file of -shapes.
func taught(file string) (lendingtest.Option, error) {
	learnt, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var service struct{ Shapes json.RawMessage }
	if json.Unmarshal(learnt, &service) == nil && service.Shapes != nil {
		learnt = service.Shapes
	}
	var routes map[string]struct{ Kinds map[string]int }
	if json.Unmarshal(learnt, &routes) != nil {
		return nil, fmt.Errorf("%s is not a service.json of lending-probe, nor a file of package shapes", file)
	}
	return lendingtest.WithShapes(learnt), nil
}

// playFile starts the scenario in a file.
func playFile(c *control.Control, file string) error {
	steps, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := c.Play(steps); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// restore loads the state of an earlier run. Without a file the sandbox starts empty. It returns
// the members of a later release, for save.
func restore(service *lendingtest.Service, file string) (unknown format.Unknown, err error) {
	content, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return unknown, nil
	} else if err != nil {
		return unknown, err
	}
	var state kept
	unknown, err = format.Decode(content, &state)
	if newer := state.Version.Check(1, "the state"); newer != nil {
		return unknown, fmt.Errorf("%s: %w", file, newer)
	} else if err != nil {
		return unknown, fmt.Errorf("%s is not the state of a sandbox: %w", file, err)
	}
	ahead, err := time.ParseDuration(state.Ahead)
	if err != nil {
		return unknown, fmt.Errorf("%s is not the state of a sandbox: %w", file, err)
	}
	if state.Running && state.Snapshot.Sequences != nil { // killed: identifiers since the last save are with clients, and must not name other records
		state.Snapshot.Codes += skipped
		for kind := range 100 {
			state.Snapshot.Sequences[kind] += skipped
		}
	}
	if err := service.Restore(state.Snapshot); err != nil {
		return unknown, fmt.Errorf("%s: %w", file, err)
	}
	service.Advance(ahead - time.Until(service.Now())) // the time since the last save counts in the sandbox, too
	return unknown, nil
}

// skipped is more than the identifiers that a sandbox gives away between two saves.
const skipped = 1 << 20

// save replaces the whole file, so a kill leaves the previous or the new state. The files
// contain passwords and tokens, so only their owner can read them. After a kill at most one
// file remains beside the state, and the next save replaces it.
func save(service *lendingtest.Service, file string, running bool, unknown format.Unknown) error {
	snapshot := service.Snapshot()
	content, err := unknown.Encode(&kept{Ahead: time.Until(snapshot.Time).String(), Running: running, Snapshot: snapshot})
	if err != nil {
		return err
	}
	name := file + ".new"
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	next, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = next.Write(content)
	err = errors.Join(err, next.Sync(), next.Close())
	if err == nil {
		err = os.Rename(name, file)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(name))
	}
	return err
}

// keep saves the state at once, before any identifier is given away, soon after each change until the
// caller calls stop, and then a last time.
func keep(service *lendingtest.Service, changes *page.News, file string, unknown format.Unknown, report func(error)) (stop func(), err error) {
	if err := save(service, file, true, unknown); err != nil {
		return nil, fmt.Errorf("the state cannot be saved: %w", err)
	}
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for running := true; running; {
			changed := changes.Wait() // before saving, so that no change is missed
			if err := save(service, file, true, unknown); err != nil {
				report(fmt.Errorf("the state was not saved: %w", err))
			}
			running = waitFor(changed, end) && waitFor(time.After(page.Rest), end)
		}
		if err := save(service, file, false, unknown); err != nil {
			report(fmt.Errorf("the state was not saved: %w", err))
		}
	}()
	return func() { close(end); <-ended }, nil
}

// waitFor returns false if end is closed first.
func waitFor[T any](c <-chan T, end <-chan struct{}) bool {
	select {
	case <-c:
		return true
	case <-end:
		return false
	}
}
