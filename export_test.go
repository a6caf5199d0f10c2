package lending

// What tests in lending_test look at.
var (
	SettledBy    = settledBy
	NewTransport = newTransport
	OnceEach     = onceEach
	ParseProblem = parseProblem
	RetryAfter   = retryAfter
	Backoff      = backoff
	VersionIn    = versionIn
)
