package probe

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lendingapi/lending-go/internal/assumption"
)

// differences compares both services, and returns the lines by assumption.
func differences(earlier, later *Service) map[string][]string {
	found := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(later.Facts)) {
		was, known := earlier.Facts[name]
		now := later.Facts[name]
		of, subject, _ := strings.Cut(name, ": ")
		shown := of == assumption.ProblemRecord && addForm(was, now) == was // another refusal may show the other forms
		if known && !shown && !alike(was, now) {
			found[of] = append(found[of], strings.TrimSpace(subject+" was "+was+", is "+now))
		}
	}
	for _, route := range slices.Sorted(maps.Keys(later.Shapes)) {
		if was := earlier.Shapes[route]; was != nil {
			place(found, route+" ", was, later.Shapes[route].public(), 0, 0)
		}
	}
	return found
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

// place adds the differences at a path. now is was with more responses, of objects around a field. A list that was
// always empty and a field that was always null were not known.
func place(found map[string][]string, path string, was, now *Shape, objectsWas, objectsNow int) {
	add := func(name, line string) { found[name] = append(found[name], strings.TrimSuffix(path, " ")+line) }
	after := now.text(objectsNow)
	if was == nil {
		if now.Count() < objectsNow { // otherwise it was in all records, of which there were too few to keep its name
			add(assumption.Fields, ": new, "+after)
		}
		return
	}
	switch before := was.text(objectsWas); {
	case was.Class() == "null":
		return
	case before == after:
	case was.Count() == now.Count():
		add(assumption.Fields, ": gone, was "+before)
	default:
		add(assumption.Fields, ": was "+before+", is "+after)
	}
	earlier := map[string]string{}
	for _, word := range slices.Sorted(maps.Keys(was.Words)) {
		earlier[letters(word)] = word
	}
	for _, word := range slices.Sorted(maps.Keys(now.Words)) { // another word is no difference
		if known := earlier[letters(word)]; known != "" && was.Words[word] == 0 {
			add(assumption.Words, " was "+known+", is "+word)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(now.Fields)) {
		if len(was.Fields) > 0 {
			place(found, path+"."+name, was.Fields[name], now.Fields[name], was.Kinds["object"], now.Kinds["object"])
		}
	}
	if was.Items != nil {
		place(found, path+"[]", was.Items, now.Items, 0, 0)
	}
}

func (s *Shape) text(objects int) string {
	text := s.Class()
	if s.Kinds["null"] > 0 && text != "null" {
		text += " or null"
	}
	if s.Count() < objects {
		text += ", optional"
	}
	return text
}

func letters(word string) string {
	return strings.ToLower(strings.NewReplacer(" ", "", "_", "", "-", "").Replace(word))
}
