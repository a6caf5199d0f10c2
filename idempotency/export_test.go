package idempotency

// Beside connects in a goroutine, as a call does during its check.
var Beside = beside
