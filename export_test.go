package lending

// What tests in lending_test look at.
var (
	SettledBy    = settledBy
	NewTransport = newTransport
	ParseProblem = parseProblem
	RetryAfter   = retryAfter
	Backoff      = backoff
	VersionIn    = versionIn
)
