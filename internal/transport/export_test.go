package transport

// Replenish opens a spare connection, as a request does.
func (f *Fresh) Replenish() { f.replenish() }
