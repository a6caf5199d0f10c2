// Package reshape changes the fields of responses to those that real responses have shown.
package reshape

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lendingapi/lending-go/internal/assumption"
	"github.com/lendingapi/lending-go/lendingtest/internal/plain"
	"github.com/lendingapi/lending-go/lendingtest/record"
)

// Routes has the learned shapes by route.
type Routes map[string]*shape

// Service is a service.json of lending-probe: the facts and shapes of a real service.
type Service struct {
	Version int
	Facts   map[string]string
	Shapes  Routes
}

// Read reads a service.json.
func Read(text []byte) (s Service, err error) {
	err = json.Unmarshal(text, &s)
	switch {
	case s.Version > 1:
		return s, fmt.Errorf("the service.json has version %d, and this package reads version 1; update the package", s.Version)
	case err != nil || s.Version < 1:
		return s, errors.New("this is no service.json of lending-probe")
	}
	return s, nil
}

// Duration returns a fact that is a duration, or 0.
func (s Service) Duration(fact string) time.Duration {
	d, _ := time.ParseDuration(s.Facts[fact])
	return d
}

// Lags returns the time until reads show a record of a kind, nil if there is none, and the time until an offer if it is longer.
// A kind that nobody has measured has the longest time.
func (s Service) Lags() (lag func(kind string) time.Duration, decision time.Duration) {
	longest, lags := time.Duration(0), map[string]time.Duration{}
	for kind, read := range map[string]string{
		"customer": "get-customer-by-id", "application": "get-customer-applications", "loan": "get-withdrawals",
	} {
		if fact := assumption.ReadLag + ": " + read; s.Facts[fact] != "" {
			lags[kind] = s.Duration(fact)
			longest = max(longest, lags[kind])
		}
	}
	lag = func(kind string) time.Duration {
		if own, measured := lags[kind]; measured {
			return own
		}
		return longest
	}
	if decision = s.Duration("read lag: application-offer"); decision <= lag("application")+time.Second {
		decision = 0
	}
	if longest == 0 {
		lag = nil
	}
	return lag, decision
}

// shape is a probe.Shape: how often each kind occurred, and the shapes of the fields and
// elements.
type shape struct {
	Kinds  map[string]int    `json:"kinds"`
	Fields map[string]*shape `json:"fields"`
	Items  *shape            `json:"items"`
	Words  map[string]int    `json:"words"` // of a status or a type; with "" if there are other texts, too
	Times  map[string]int    `json:"times"` // the ends of times, for example ".000+02:00"
}

// publishedFields has the published fields by a part of the route.
var publishedFields = map[string][]string{
	"create-customer": {"id"}, "-loan": {"id", "applicationId"}, "-paged": {"data", "totalCount"}, "get-withdrawals": {"data", "totalCount"},
	"get-subscription": {"id", "webhookUri", "isActive", "webhooks", "secret"},
}

// Apply changes the body of a response to the learned fields of its route.
func (all Routes) Apply(route, path string, body []byte) []byte {
	seen := all[route]
	if seen == nil || len(body) == 0 || strings.Contains(route, "/Authenication/") {
		return body
	}
	m := &maker{route: strings.ToLower(route)}
	for part, names := range publishedFields {
		if strings.Contains(route, part) {
			m.published = append(m.published, names...)
		}
	}
	return plain.JSON(m.fit(plain.Decode(body), seen, path))
}

// maker makes values of the learned kinds. Different values of at lead to different values.
type maker struct {
	route     string
	published []string
}

// fit returns the service's own value v, converted to a learned kind.
func (m *maker) fit(v any, s *shape, at string) any {
	switch v := v.(type) {
	case map[string]any:
		if s.Kinds["object"] > 0 {
			return m.object(v, s, at)
		}
	case []any:
		if s.Kinds["list"] > 0 && s.Items != nil {
			for i := range v {
				v[i] = m.fit(v[i], s.Items, fmt.Sprint(at, i))
			}
		}
		if s.Kinds["list"] > 0 {
			return v
		}
	default:
		if text, ok := v.(string); ok && len(s.Words) > 0 && s.Words[""] == 0 && s.Kinds["string"] > 0 {
			return s.spelt(text)
		}
		if kept, ok := s.kindred(v, at); ok {
			return kept
		}
	}
	return m.value(s, at)
}

// object returns an object with the learned fields instead of the service's own fields.
func (m *maker) object(own map[string]any, s *shape, at string) any {
	if len(s.Fields) == 0 { // the names are data, or there are none
		return own
	}
	if id, ok := own["id"].(string); ok {
		at = id
	}
	fields := map[string]any{}
	for _, name := range m.published {
		if value, ok := own[name]; ok {
			fields[name] = value
		}
	}
	for name, field := range s.Fields {
		if field == nil {
			continue
		}
		path, times := at+"."+name, 0
		for _, n := range field.Kinds {
			times += n
		}
		value, has := m.find(own, name)
		switch {
		case has:
			fields[name] = m.fit(value, field, path)
		case hash(path, "there")%uint64(max(s.Kinds["object"], 1)) < uint64(times):
			fields[name] = m.value(field, path)
		}
	}
	return fields
}

// find returns the value of a field; the case of the name is ignored. A record's own identifier
// is also found under the name of the route: "loanId" in a loan.
func (m *maker) find(own map[string]any, name string) (any, bool) {
	for _, candidate := range slices.Sorted(maps.Keys(own)) {
		if strings.EqualFold(candidate, name) {
			return own[candidate], true
		}
	}
	if kind, ok := strings.CutSuffix(strings.ToLower(name), "id"); ok && kind != "" && strings.Contains(m.route, kind) {
		id, ok := own["id"]
		return id, ok
	}
	return nil, false
}

// value returns an invented value. Each kind is as frequent as in the real responses.
func (m *maker) value(s *shape, at string) any {
	var seen []string
	for _, kind := range slices.Sorted(maps.Keys(s.Kinds)) {
		seen = append(seen, slices.Repeat([]string{kind}, min(max(s.Kinds[kind], 0), 1000))...)
	}
	if len(seen) == 0 {
		return nil
	}
	return m.made(seen[hash(at, "kind")%uint64(len(seen))], s, at)
}

func (m *maker) made(kind string, s *shape, at string) any {
	h := hash(at, "value")
	day := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC).AddDate(0, 0, int(h%365))
	switch kind {
	case "object":
		return m.object(map[string]any{}, s, at)
	case "list":
		if s.Items == nil {
			return []any{}
		}
		return []any{m.value(s.Items, at+"[]")}
	case "boolean":
		return h%2 == 0
	case "integer":
		return h % 1000
	case "number":
		return json.Number(record.Cents(100_00 + h%10_000_00).String())
	case "decimal string":
		return record.Cents(100_00 + h%10_000_00).String()
	case "UUID":
		return fmt.Sprintf("%08x-5eed-4000-8000-%012x", uint32(h>>32), h&(1<<48-1))
	case "date":
		return day.Format(time.DateOnly)
	case "time", "time without a zone":
		return s.time(day, kind, at)
	case "string":
		if len(s.Words) > 0 && s.Words[""] == 0 {
			all := slices.Sorted(maps.Keys(s.Words))
			return all[hash(at)%uint64(len(all))]
		}
		return fmt.Sprintf("%s %d", at[strings.LastIndexByte(at, '.')+1:], h%1000)
	}
	return nil // null, or too deep to be learned
}

// spelt returns a word of this model in the learned spelling. A file has only frequent words, so another word stays.
func (s *shape) spelt(own string) string {
	letters := strings.NewReplacer(" ", "", "_", "", "-", "").Replace
	for _, seen := range slices.Sorted(maps.Keys(s.Words)) {
		if strings.EqualFold(letters(seen), letters(own)) {
			return seen
		}
	}
	return own
}

// time returns the time with a learned end.
func (s *shape) time(t time.Time, kind, at string) string {
	var ends []string
	for _, end := range slices.Sorted(maps.Keys(s.Times)) {
		if strings.ContainsAny(end, "Z+-") == (kind == "time") {
			ends = append(ends, end)
		}
	}
	end := ".0000000" // unless it was learned
	if kind == "time" {
		end += "Z"
	}
	if len(ends) > 0 {
		end = ends[hash(at, "end")%uint64(len(ends))]
	}
	offset := strings.TrimLeft(end, ".0123456789")
	if zone, err := time.Parse("Z07:00", offset); err == nil {
		t = t.In(zone.Location())
	}
	return t.Format("2006-01-02T15:04:05"+strings.TrimSuffix(end, offset)) + offset
}

func hash(texts ...string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(strings.Join(texts, "\x00")))
	return h.Sum64()
}

// kindred returns an own value that already has a learned kind or is easily converted.
func (s *shape) kindred(v any, at string) (fitting any, ok bool) {
	kinds := s.Kinds
	switch v := v.(type) {
	case bool:
		return v, kinds["boolean"] > 0
	case json.Number:
		f, _ := v.Float64()
		switch {
		case kinds["number"] > 0 || kinds["integer"] > 0 && !strings.ContainsAny(v.String(), ".eE"):
			return v, true
		case kinds["integer"] > 0:
			return int64(f), true
		}
		return strconv.FormatFloat(f, 'f', 2, 64), kinds["decimal string"] > 0
	case string:
		switch _, uuid := record.ParseID(v); {
		case kinds["string"] > 0, uuid && kinds["UUID"] > 0:
			return v, true
		}
		own, err := time.Parse(record.StampForm, v)
		switch {
		case err != nil:
		case kinds["time without a zone"] > 0:
			return s.time(own, "time without a zone", at), true
		case kinds["time"] > 0:
			return s.time(own, "time", at), true
		default:
			return own.Format(time.DateOnly), kinds["date"] > 0
		}
	}
	return nil, false
}
