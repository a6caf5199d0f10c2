// Package assumption lists what this project believes about the service without proof: the
// interface does not publish it. docs/assumptions.md shows the list.
package assumption

// Level is the part of the probe that measures an assumption.
type Level string

// The levels of the probe. Each includes those before it.
const (
	Look   Level = "look"   // reads only
	Walk   Level = "walk"   // creates a marked customer and an application
	Money  Level = "money"  // withdraws money
	Events Level = "events" // receives webhooks during the walk
	Ask    Level = "ask"    // not measured: somebody must ask the owner of the service
)

// Assumption is a belief about the service. Name also names the facts of package probe that
// measure the assumption.
type Assumption struct {
	Name     string
	What     string // the belief
	Where    string // the parts that rely on it
	IfFalse  string // the effect if it is wrong
	Level    Level
	Measured string   // how the probe measures it, or why it cannot
	Set      string   // what a partner sets or changes if it is wrong
	Checks   []string // mutations of docs/checks.md whose check relies on it
	Codes    []string // codes of the refusals in lendingtest that rely on it
}

// All returns the list.
func All() []Assumption {
	var all []Assumption
	for _, part := range [][]Assumption{reading(), records(), signIn(), mutating(), approving(), money(), network(), events()} {
		all = append(all, part...)
	}
	return all
}

// Published returns the codes of those refusals in lendingtest that the interface itself states.
// The words of the codes are assumed in any case: see the assumption "codes".
func Published() []string {
	return []string{
		"BodyRequired", "DuplicateZipCode", "EmptyDocument", "FileTooLarge", "Forbidden", "InvalidBoolean", "InvalidEmail", "InvalidJson",
		"InvalidMobileNumber", "InvalidSignature", "InvalidType", "InvalidYears", "MaximumLength", "NotFound", "OfferExpired",
		"OneProperty", "RequestTooLarge", "Required", "TargetRequired", "TokenExpired", "TokenInvalid", "TokenMissing", "UnknownEvent",
		"EventNotSubscribed", "CalculationMismatch", "CalculationNotFound", "InsufficientBalance", "AmountMismatch",
		"AdvanceRateMismatch", "ApplicantNotInApplication", "InvalidUri", "SimulationNotSupported", "InvalidDocument",
		"InvalidNumber", "InvalidDate", "InvalidAmount",
	}
}
