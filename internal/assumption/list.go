// Package assumption lists the beliefs of this project about the service without proof, because
// the interface is silent. docs/assumptions.md shows the list.
package assumption

// Level is the part of the probe that measures an assumption.
type Level string

// The levels of the probe. Each includes Look; Events includes Walk.
const (
	Look   Level = "look"   // reads only
	Walk   Level = "walk"   // creates a marked customer and an application
	Money  Level = "money"  // withdraws money
	Events Level = "events" // receives webhooks during the walk
	Ask    Level = "ask"    // not measured: somebody must ask the owner of the service
)

// Assumption is a belief about the service. The facts of package probe begin with its Name.
type Assumption struct {
	Name     string
	What     string // the belief
	Where    string // the parts with this belief
	IfFalse  string // the effect of a wrong belief
	Level    Level
	Measured string   // the method of the probe, or the reason why there is none
	Set      string   // the setting that a partner changes after a wrong belief
	Checks   []string // mutations of docs/checks.md
	Codes    []string // codes of refusals in lendingtest
}

// All returns the list.
func All() []Assumption {
	var all []Assumption
	for _, part := range [][]Assumption{reading(), records(), signIn(), mutating(), approving(), money(), network(), events()} {
		all = append(all, part...)
	}
	return all
}

// Published returns the codes of those refusals in lendingtest that the interface states. The
// words of the codes are assumed in any case: see the assumption "codes".
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
