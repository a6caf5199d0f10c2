package probe

import (
	_ "embed" // for assumed.json
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/lendingapi/lending-go/internal/assumption"
)

// version is the version of the files of this package.
const version = 1

// Service is the knowledge about a service: the file service.json. It has names, types, statuses,
// durations and the words of statuses and types, and no value of a record. The file is for [Watch] and for
// lendingtest.WithService.
type Service struct {
	Version int `json:"version"`
	// Facts has a short text for each assumption, or for "assumption: subject".
	Facts map[string]string `json:"facts"`
	// Shapes has the fields of each response.
	Shapes Seen `json:"shapes"`
}

func newService() *Service {
	return &Service{Version: version, Facts: map[string]string{}, Shapes: Seen{}}
}

// clone returns a copy as in a file.
func (s *Service) clone() *Service {
	c := newService()
	text, err := json.Marshal(s)
	if err = errors.Join(err, json.Unmarshal(text, c)); err != nil {
		panic(err) // names and counts are always JSON
	}
	return c
}

//go:embed assumed.json
var assumedJSON []byte

// Assumed returns the assumptions of this project as facts: the answers of lendingtest.
func Assumed() *Service {
	s, err := parse(assumedJSON, "assumed.json")
	if err != nil {
		panic(err) // a test reads the same bytes
	}
	return s
}

// fact is the form of each fact, which has no room for a value.
var fact = regexp.MustCompile(`^[A-Za-z0-9_ ,'/+.\[\]{}-]{1,300}$`)

// Load reads a service.json.
func Load(path string) (*Service, error) {
	text, err := os.ReadFile(path) //nolint:gosec // the caller's file
	if err != nil {
		return nil, err
	}
	return parse(text, path)
}

func parse(text []byte, path string) (*Service, error) {
	s := newService()
	s.Version = 0
	switch err := json.Unmarshal(text, s); {
	case s.Version > version:
		return nil, fmt.Errorf("lending/probe: %s has version %d, and this program reads version %d; update the program",
			path, s.Version, version)
	case err != nil || s.Version < 1 || s.Shapes == nil:
		return nil, fmt.Errorf("lending/probe: %s is not a service.json of lending-probe; name another file", path)
	}
	for _, text := range s.Facts {
		if !fact.MatchString(text) {
			return nil, fmt.Errorf("lending/probe: %s has a fact that lending-probe does not write; name another file", path)
		}
	}
	return s, nil
}

// Save writes a service.json, whole or not at all: a kill leaves the old or the new text.
func (s *Service) Save(path string) error {
	s.Version = version
	text, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		return err
	}
	next, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.new")
	if err != nil {
		return err
	}
	_, err = next.Write(append(text, '\n'))
	if err = errors.Join(err, next.Sync(), next.Close()); err == nil {
		err = os.Rename(next.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(next.Name()))
	}
	return nil
}

// maxLateness returns the least MaxLateness of a log that agrees with the waits of a run; 0 without waits.
func (s *Service) maxLateness() time.Duration {
	longest, measured := time.Duration(0), false
	for name, value := range s.Facts {
		if d, err := time.ParseDuration(value); err == nil && (strings.HasPrefix(name, assumption.ReadLag) || name == assumption.LateExecution) {
			longest, measured = max(longest, d), true
		}
	}
	if !measured {
		return 0
	}
	late, _ := time.ParseDuration(s.Facts[assumption.LateExecution])
	return max(10*time.Second, (2 * (longest + late)).Round(10*time.Second))
}
