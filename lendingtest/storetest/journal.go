package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lendingapi/lending-go"
)

// JournalStore holds a [lending.JournalStore] to its contract. place makes an empty place,
// and returns what opens the store there, as each of several processes does: stores that are
// open at the same time share their entries. Of a store that only one process may have open
// it closes the one before. A store that ends with its process, for tests, is returned again;
// what must survive is not tested then.
func JournalStore(t *testing.T, place func(t *testing.T) (open func() lending.JournalStore)) {
	t.Helper()
	for _, rule := range journalRules() {
		t.Run(rule.name, func(t *testing.T) { rule.check(t, place(t)) })
	}
}

func journalRules() []rule[func() lending.JournalStore] {
	var rules []rule[func() lending.JournalStore]
	for _, r := range []struct {
		name  string
		check func(s journal)
	}{
		{"nothing is kept at first", journal.empty},
		{"an entry comes out as it went in", journal.asItWas},
		{"keys and scopes differ in every byte", journal.names},
		{"the revision is one higher with every Save", journal.counts},
		{"Save refuses another revision", journal.otherRevision},
		{"one entry has a scope", journal.oneScope},
		{"a scope that is given up is free", journal.scopeGivenUp},
		{"Save refuses the scope of another and changes nothing", journal.otherScope},
		{"Age is the time since the last Save", journal.ages},
		{"List selects by prefix", journal.listPrefix},
		{"List selects by state", journal.listStates},
		{"List selects by age", journal.listOlder},
		{"List returns the oldest first", journal.listOldest},
		{"List returns no more than the limit", journal.listLimit},
		{"what is returned is the caller's own", journal.own},
		{"of many at once one saves", journal.oneOfMany},
		{"of many keys at once one gets the scope", journal.oneScopeOfMany},
		{"what many save at once is not mixed", journal.unmixed},
		{"processes share the entries", journal.shared},
		{"what was saved survives its process", journal.survives},
		{"methods return when their context has ended", journal.contexts},
	} {
		rules = append(rules, rule[func() lending.JournalStore]{r.name, func(tb testing.TB, open func() lending.JournalStore) {
			tb.Helper()
			r.check(journal{tb, open, open()})
		}})
	}
	return rules
}

// journal is a store under test.
type journal struct {
	testing.TB
	open  func() lending.JournalStore
	store lending.JournalStore
}

var journalStates = []lending.CommandState{
	lending.CommandFree, lending.CommandSent, lending.CommandUnknown, lending.CommandUndecided, lending.CommandDone, lending.CommandForgotten,
}

func sent(key, scope string) lending.JournalEntry {
	return lending.JournalEntry{Key: key, State: lending.CommandSent, Scope: scope, Data: []byte("data of " + key)}
}

// save saves an entry and returns it as it is kept then.
func (s journal) save(entry lending.JournalEntry) lending.JournalEntry {
	s.Helper()
	if err := s.store.Save(s.Context(), entry); err != nil {
		s.Fatalf("Save of %s, when what is kept has its revision and nobody else its scope: %v", described(entry), err)
	}
	entry.Revision++
	return entry
}

func (s journal) conflicts(entry lending.JournalEntry, why string) {
	s.Helper()
	if err := s.store.Save(s.Context(), entry); !errors.Is(err, lending.ErrJournalConflict) {
		s.Fatalf("Save of %s: got error %v, want ErrJournalConflict: %s", described(entry), err, why)
	}
}

func (s journal) held(entry lending.JournalEntry, by, why string) {
	s.Helper()
	err := s.store.Save(s.Context(), entry)
	if held, ok := errors.AsType[*lending.ScopeHeldError](err); !ok || held.Key != by {
		s.Fatalf("Save of %s: got error %v, want a ScopeHeldError with the key %.40q: %s", described(entry), err, by, why)
	}
}

func (s journal) load(key string) *lending.JournalEntry {
	s.Helper()
	entry, err := s.store.Load(s.Context(), key)
	if err != nil {
		s.Fatalf("Load of key %.40q: %v", key, err)
	}
	return entry
}

// loads holds that an entry is kept as want says, but for its age, which it returns.
func (s journal) loads(want lending.JournalEntry, why string) time.Duration {
	s.Helper()
	got := s.load(want.Key)
	if got == nil {
		s.Fatalf("Load of key %.40q: got nil, want %s: %s", want.Key, described(want), why)
	}
	if !equal(*got, want) {
		s.Fatalf("Load of key %.40q: got %s, want %s: %s", want.Key, described(*got), described(want), why)
	}
	return got.Age
}

func (s journal) nothing(key, why string) {
	s.Helper()
	if got := s.load(key); got != nil {
		s.Fatalf("Load of key %.40q: got %s, want nil: %s", key, described(*got), why)
	}
}

func (s journal) list(filter lending.JournalFilter) []lending.JournalEntry {
	s.Helper()
	if filter.States == nil {
		filter.States = journalStates
	}
	if filter.Limit == 0 {
		filter.Limit = 1000
	}
	entries, err := s.store.List(s.Context(), filter)
	if err != nil {
		s.Fatalf("List: %v", err)
	}
	return entries
}

// lists holds that List returns these entries, in this order.
func (s journal) lists(why string, filter lending.JournalFilter, want ...lending.JournalEntry) {
	s.Helper()
	got := s.list(filter)
	if !slices.EqualFunc(got, want, equal) {
		s.Fatalf("List with prefix %q, states %q, age %v and limit %d: got %s, want %s: %s",
			filter.Prefix, filter.States, filter.Older, filter.Limit, describedAll(got), describedAll(want), why)
	}
}

// listsAll is lists in any order.
func (s journal) listsAll(why string, filter lending.JournalFilter, want ...lending.JournalEntry) {
	s.Helper()
	got := s.list(filter)
	byKey := func(a, b lending.JournalEntry) int { return strings.Compare(a.Key, b.Key) }
	slices.SortFunc(got, byKey)
	want = slices.SortedFunc(slices.Values(want), byKey)
	if !slices.EqualFunc(got, want, equal) {
		s.Fatalf("List with prefix %q and states %q: got %s, want, in any order, %s: %s", filter.Prefix, filter.States, describedAll(got), describedAll(want), why)
	}
}

// equal compares all but the age.
func equal(a, b lending.JournalEntry) bool {
	return a.Key == b.Key && a.Revision == b.Revision && a.State == b.State && a.Scope == b.Scope && bytes.Equal(a.Data, b.Data)
}

func described(e lending.JournalEntry) string {
	const most = 40
	data := fmt.Sprintf("%q", e.Data[:min(len(e.Data), most)])
	if len(e.Data) > most {
		data += fmt.Sprintf("... of %d bytes", len(e.Data))
	}
	return fmt.Sprintf("{%.40q revision %d %q scope %.40q data %s}", e.Key, e.Revision, e.State, e.Scope, data)
}

func describedAll(entries []lending.JournalEntry) string {
	const most = 8
	var text []string
	for _, e := range entries[:min(len(entries), most)] {
		text = append(text, described(e))
	}
	return fmt.Sprintf("%d entries [%s]", len(entries), strings.Join(text, " "))
}

func (s journal) empty() {
	s.Helper()
	s.nothing("a", "nothing was saved")
	s.lists("nothing was saved", lending.JournalFilter{})
	for _, revision := range []int64{1, -1} {
		entry := sent("a", "scope")
		entry.Revision = revision
		s.conflicts(entry, "nothing is kept, which is revision 0")
	}
	s.nothing("a", "the Save has failed")
	s.lists("each Save has failed", lending.JournalFilter{})
	s.save(sent("b", "scope"))
	s.nothing("a", "another key was saved")
}

func (s journal) asItWas() {
	s.Helper()
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	large := bytes.Repeat(every, 3<<19/len(every)) // 1.5 MiB: an answer of 1 MiB in the base64 of JSON, and more
	entry := lending.JournalEntry{Key: "orders:a", Scope: strings.Repeat("0123456789abcdef", 4)}
	for i, data := range [][]byte{every, nil, large, []byte("{\"a\": \"b\"}\n"), {0}, {}, large[1:], []byte("last")} {
		entry.State, entry.Data = journalStates[i%len(journalStates)], data
		entry = s.save(entry)
		s.loads(entry, "it was saved so")
		s.lists("it was saved so", lending.JournalFilter{}, entry)
	}
	entry.Scope = ""
	entry = s.save(entry)
	s.loads(entry, "it was saved without a scope")
}

// odd are names that a store could take for more than names.
var odd = []string{
	"a", "A", "a ", " a", "a:", ":a", "a:b", "a:b:c", ":", "::", "a/b", "a\\b", "a%b", "a%3Ab", "a_b", "*", "?", "a*", "[a]", "[^a]", "{a}", "{b}", "}{", "'", "\"", "`", "a'; --", "$1", "\\x41",
	"ü", "u\u0308", "漢字", "🏦", "(a", "[a", "+", "-", "0", "1", "a|b", "a,b", "a;b", "a\u00a0b", "sent", "sent:a", "done", "entry:a", "scope:a", "index", "clock", "_id", strings.Repeat("k", 256), strings.Repeat("k", 255) + "K", strings.Repeat("漢", 100),
}

func (s journal) names() {
	s.Helper()
	var all []lending.JournalEntry
	for i, name := range odd {
		s.nothing(name, "another key was saved")
		entry := sent(name, odd[(i+1)%len(odd)])
		entry.Data = fmt.Appendf(nil, "entry %d", i)
		all = append(all, s.save(entry))
	}
	for i, entry := range all {
		s.loads(entry, "it was saved so, and others after it")
		s.held(sent("new", entry.Scope), entry.Key, "it has the scope")
		if i%2 == 0 {
			entry.Scope = ""
			all[i] = s.save(entry)
		}
	}
	s.listsAll("these were saved", lending.JournalFilter{}, all...)
	for i, entry := range all {
		if entry.Scope != "" {
			s.held(sent("new", entry.Scope), entry.Key, "it has the scope still")
		} else if i+1 < len(odd) {
			s.save(sent("taker of "+odd[i+1], odd[i+1]))
		}
	}
}

func (s journal) counts() {
	s.Helper()
	entry := sent("a", "")
	for i := range 24 {
		entry.State = journalStates[i%len(journalStates)]
		if entry = s.save(entry); entry.Revision != int64(i+1) {
			s.Fatalf("%d times saved, revision %d", i+1, entry.Revision)
		}
		s.loads(entry, "the revision says how often it was saved")
	}
	other := s.save(sent("b", ""))
	s.loads(other, "each key has a count of its own")
}

func (s journal) otherRevision() {
	s.Helper()
	entry := s.save(s.save(s.save(sent("a", "scope"))))
	wait(4 * slack)
	for _, revision := range []int64{0, 1, 2, 4, 30, 3 + 1<<32, -3, 1 << 53, 1<<53 + 1} {
		other := lending.JournalEntry{Key: "a", Revision: revision, State: lending.CommandDone, Scope: "another", Data: []byte("refused")}
		s.conflicts(other, "revision 3 is kept")
	}
	if age := s.loads(entry, "each Save has failed"); age < 3*slack {
		s.Fatalf("Load: got age %v after a Save that has failed, want at least %v: it changes nothing", age, 3*slack)
	}
	s.lists("each Save has failed", lending.JournalFilter{States: []lending.CommandState{lending.CommandSent}}, entry)
	s.lists("each Save has failed", lending.JournalFilter{States: []lending.CommandState{lending.CommandDone}})
	s.held(sent("b", "scope"), "a", "a Save that has failed does not give it up")
	s.save(sent("b", "another")) // a Save that has failed does not take it
	entry.State = lending.CommandDone
	s.loads(s.save(entry), "it has the revision that is kept")
}

func (s journal) oneScope() {
	s.Helper()
	for _, state := range journalStates {
		entry := sent("a of "+string(state), "scope of "+string(state))
		entry.State = state
		entry = s.save(entry)
		for _, other := range journalStates {
			refused := sent("b of "+string(state), entry.Scope)
			refused.State = other
			s.held(refused, entry.Key, "it has the scope, whatever its state")
		}
		s.nothing("b of "+string(state), "each Save has failed")
		entry = s.save(entry) // it has the scope itself
		s.loads(entry, "each other Save has failed")
		s.held(sent("b of "+string(state), entry.Scope), entry.Key, "it has the scope still")
	}
	first, second := s.save(sent("no scope", "")), s.save(sent("none either", ""))
	s.loads(first, "an empty scope is none")
	s.loads(second, "an empty scope is none")
}

func (s journal) scopeGivenUp() {
	s.Helper()
	a := s.save(sent("a", "first"))
	a.Scope = ""
	a = s.save(a)
	b := s.save(sent("b", "first"))
	a.Scope = "first"
	s.held(a, "b", "it was given up, and another has it")
	a.Scope = "second"
	a = s.save(a)
	a.Scope = "third"
	a = s.save(a)
	c := s.save(sent("c", "second"))
	s.held(sent("d", "third"), "a", "it has this one now")
	s.held(sent("d", "second"), "c", "it was given up for another")
	b.Scope = ""
	s.save(b)
	a.Scope = "first"
	a = s.save(a)
	s.loads(a, "the scope was given up by another")
	s.loads(c, "nothing has changed it")
	s.held(sent("d", "first"), "a", "it has it again")
}

func (s journal) otherScope() {
	s.Helper()
	s.save(sent("a", "taken"))
	b := s.save(sent("b", "own"))
	wait(4 * slack)
	refused := b
	refused.State, refused.Scope, refused.Data = lending.CommandDone, "taken", []byte("refused")
	s.held(refused, "a", "it has the scope")
	if age := s.loads(b, "the Save has failed"); age < 3*slack {
		s.Fatalf("Load: got age %v after a Save that has failed, want at least %v: it changes nothing", age, 3*slack)
	}
	s.lists("the Save has failed", lending.JournalFilter{States: []lending.CommandState{lending.CommandDone}})
	s.held(sent("c", "own"), "b", "a Save that has failed does not give it up")
	s.nothing("c", "the Save has failed")
	s.conflicts(func() lending.JournalEntry { e := b; e.Revision++; return e }(), "a Save that has failed does not count")
	b.State = lending.CommandDone
	s.loads(s.save(b), "it has kept its scope")
}

func (s journal) ages() {
	s.Helper()
	entry := sent("a", "scope")
	entry.Age = time.Hour // which Save does not look at
	for range 3 {
		start := time.Now()
		entry = s.save(entry)
		saved := time.Now()
		var last time.Duration
		for i := range 5 {
			before := time.Since(saved)
			age := s.loads(entry, "it was saved so")
			after := time.Since(start)
			if age < before-slack || age > after+slack || age < last || age < 0 {
				s.Fatalf("Load: got age %v, then %v, of an entry that was saved at least %v and no more than %v ago", last, age, before, after)
			}
			last = age
			before = time.Since(saved)
			listed := s.list(lending.JournalFilter{})
			if len(listed) != 1 || listed[0].Age < before-slack || listed[0].Age > time.Since(start)+slack {
				s.Fatalf("List: got %s with age %v, of an entry that was saved at least %v ago", describedAll(listed), listed[0].Age, before)
			}
			wait(time.Duration(i) * slack)
		}
		wait(short / 3)
	}
}

func (s journal) own() {
	s.Helper()
	data := []byte("abc")
	entry := s.save(lending.JournalEntry{Key: "a", State: lending.CommandSent, Data: data})
	copy(data, "xyz")
	entry.Data = []byte("abc")
	s.loads(entry, "the bytes that were given to Save were changed after it")
	loaded := s.load("a")
	copy(loaded.Data, "xyz")
	loaded.State, loaded.Scope, loaded.Revision = lending.CommandDone, "scope", 17
	s.loads(entry, "an entry that Load had returned was changed")
	listed := s.list(lending.JournalFilter{})
	copy(listed[0].Data, "xyz")
	_ = append(listed[0].Data, "xyz"...)
	s.loads(entry, "an entry that List had returned was changed")
	s.lists("an entry that List had returned was changed", lending.JournalFilter{}, entry)
}
