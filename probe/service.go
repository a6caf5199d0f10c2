package probe

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/lendingapi/lending-go/shapes"
)

// version is the version of the files of this package.
const version = 1

// Service is the knowledge about a service: the file service.json. It has names, types, statuses,
// durations and the words of statuses and types, and no value of a record. Shapes is also for
// shapes.Watch, and the file for lendingtest.WithService.
type Service struct {
	Version int `json:"version"`
	// Facts has a short text for each assumption, or for "assumption: subject".
	Facts map[string]string `json:"facts"`
	// Shapes has the fields of each response, and those of refusals under [Refusals].
	Shapes shapes.Seen `json:"shapes"`
}

// Refusals is the name under which Shapes has the fields of problem records.
const Refusals = "ANY /refusal"

func newService() *Service {
	return &Service{Version: version, Facts: map[string]string{}, Shapes: shapes.Seen{}}
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

// Save writes a service.json, whole or not at all.
func (s *Service) Save(path string) error {
	s.Version = version
	text, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		return err
	}
	return writeFile(path, append(text, '\n'))
}

// writeFile replaces a file, so that a kill leaves the old or the new text.
func writeFile(path string, text []byte) error {
	next, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600) //nolint:gosec // the caller's file
	if err != nil {
		return err
	}
	_, err = next.Write(text)
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
		if d, err := time.ParseDuration(value); err == nil && (strings.HasPrefix(name, "read lag") || name == "late execution") {
			longest, measured = max(longest, d), true
		}
	}
	if !measured {
		return 0
	}
	late, _ := time.ParseDuration(s.Facts["late execution"])
	return max(10*time.Second, (2 * (longest + late)).Round(10*time.Second))
}

// differences compares the facts and shapes of both services, and returns the lines by assumption.
func differences(earlier, later *Service) map[string][]string {
	found := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(later.Facts)) {
		was, known := earlier.Facts[name]
		if now := later.Facts[name]; known && !alike(was, now) {
			assumption, subject, _ := strings.Cut(name, ": ")
			found[assumption] = append(found[assumption], strings.TrimSpace(subject+" was "+was+", is "+now))
		}
	}
	before, after := shapes.Seen{}, later.Shapes.Merge(nil) // a copy
	for route := range later.Shapes {
		if before[route] = earlier.Shapes[route]; before[route] == nil {
			delete(before, route)
			delete(after, route)
		} else {
			forgetUnknown(before[route], after[route])
		}
	}
	for _, line := range shapes.Changes(before, after) {
		if rest, of := strings.CutPrefix(line, Refusals+" "); of {
			found["problem record"] = append(found["problem record"], rest)
		} else {
			found["fields"] = append(found["fields"], line)
		}
	}
	for _, route := range slices.Sorted(maps.Keys(after)) {
		respelt(found, route+" ", before[route], after[route])
	}
	return found
}

// forgetUnknown removes places of now without a counterpart in was: the records of a list or map that
// was always empty, and the values of a field that was always null.
func forgetUnknown(was, now *shapes.Shape) {
	switch {
	case was == nil || now == nil:
		return
	case was.Items == nil:
		now.Items = nil
	}
	if was.Map && was.Values == nil {
		now.Values = nil
	}
	for name, field := range now.Fields {
		if known := was.Fields[name]; known != nil && known.Class() == "null" {
			*field = shapes.Shape{Kinds: map[string]int{"null": field.Count()}}
		}
		forgetUnknown(was.Fields[name], field)
	}
	forgetUnknown(was.Items, now.Items)
	forgetUnknown(was.Values, now.Values)
}

// alike reports whether two facts are equal, or durations that differ by a second or a quarter.
func alike(was, now string) bool {
	a, err1 := time.ParseDuration(was)
	b, err2 := time.ParseDuration(now)
	if err1 != nil || err2 != nil {
		return was == now
	}
	return (a - b).Abs() <= max(time.Second, max(a, b)/4)
}

// respelt adds the words of a place that are spelt in another way, and the times in another form.
// Another word is no change.
func respelt(found map[string][]string, path string, was, now *shapes.Shape) {
	if was == nil || now == nil {
		return
	}
	earlier := map[string]string{}
	for _, word := range slices.Sorted(maps.Keys(was.Words)) {
		earlier[letters(word)] = word
	}
	for _, word := range slices.Sorted(maps.Keys(now.Words)) {
		if known := earlier[letters(word)]; known != "" && was.Words[word] == 0 {
			found["words"] = append(found["words"], path+" was "+known+", is "+word)
		}
	}
	if before, after := zones(was), zones(now); before != "" && after != "" && !strings.Contains(before, after) {
		found["fields"] = append(found["fields"], path+": was a time "+before+", is a time "+after)
	}
	for _, name := range slices.Sorted(maps.Keys(now.Fields)) {
		respelt(found, path+"."+name, was.Fields[name], now.Fields[name])
	}
	respelt(found, path+"[]", was.Items, now.Items)
	respelt(found, path+".*", was.Values, now.Values)
}

// zones tells how the times of a place name their zone. Package shapes takes a wider kind of time for
// no change, but a parser can fail.
func zones(s *shapes.Shape) string {
	kinds := map[string]bool{}
	for end := range s.Times {
		switch {
		case strings.HasSuffix(end, "Z"):
			kinds["with Z"] = true
		case strings.ContainsAny(end, "+-"):
			kinds["with an offset"] = true
		default:
			kinds["without a zone"] = true
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(kinds)), " or ")
}

func letters(word string) string {
	return strings.ToLower(strings.NewReplacer(" ", "", "_", "", "-", "").Replace(word))
}
