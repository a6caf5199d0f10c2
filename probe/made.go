package probe

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"
)

// Made is a record of the service that the probe has created.
type Made struct {
	At      time.Time `json:"at"`
	Service string    `json:"service"` // the address
	What    string    `json:"what"`
	ID      string    `json:"id"`
}

// madeFile lists the records of all walks, a line of JSON for each. The probe only appends, so that
// probes can share a file and a damaged line costs no other. An empty line stands before each walk: it ends a line
// that a killed walk has cut.
type madeFile struct{ *os.File }

// openMade opens or creates a file, and follows no link.
func openMade(path string) (madeFile, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600) //nolint:gosec // the caller's file
	if errors.Is(err, os.ErrExist) {
		named, missing := os.Lstat(path)
		if missing != nil || !named.Mode().IsRegular() {
			return madeFile{}, fmt.Errorf("lending/probe: %s is no regular file; name another file", path)
		}
		if file, err = os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0o600); err == nil { //nolint:gosec // the same
			if opened, _ := file.Stat(); !os.SameFile(named, opened) {
				err = errors.Join(fmt.Errorf("lending/probe: another program has replaced %s; start again", path), file.Close())
			}
		}
	}
	return madeFile{file}, err
}

// add appends a line. Each line is a single write.
func (f madeFile) add(before string, m Made) error {
	text, err := json.Marshal(m)
	if err == nil {
		_, err = f.WriteString(before + string(text) + "\n")
	}
	return err
}
