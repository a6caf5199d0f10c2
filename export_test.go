package lending

// What tests in lending_test look at.
var (
	SettledBy  = settledBy
	RetryAfter = retryAfter
	Backoff    = backoff
)
