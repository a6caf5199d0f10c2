// Package idempotency makes a mutation happen once, even if the program crashes and runs again.
// The caller gives each mutation an idempotency key. A log records the key, the progress and the
// response in a store.
//
//	keys, err := idempotency.NewLog(store.NewMemory(), nil)
//
//	client, err := lending.New(address, lending.WithCredentials(credentials), lending.WithIdempotency(keys))
//
//	ctx = lending.WithIdempotencyKey(ctx, "order-42/create-customer")
//	customer, err := client.Applications.CreateCustomer(ctx, request)
//
// The log records the mutation before its first byte is sent, and the response afterwards. A
// second call with the same key returns the recorded response and sends nothing. If the response
// is lost, the next call makes a check: reads that show whether the mutation happened. The log
// sends the mutation again only if it did not happen, or if a second execution is harmless.
//
// After each error and each restart, run the whole order again from its first step. A step that
// is done costs one read of the store.
//
// A store in memory ends with its process. Durable stores are in the modules contrib/bolt (one
// process) and contrib/postgres (any number of replicas). Your own [store.Store] must pass
// lendingtest/storetest.IdempotencyStore.
//
// # Keys
//
//   - Build a key from business data: an order and a step. The id of a job or of a workflow run
//     differs at the next attempt, and would send the mutation again.
//   - A key belongs to one request: method, parameters and body. After the first send, a different
//     request gets ErrKeyReused. A request with time.Now() is different each time. A member with
//     its zero value is as good as none, and the order of members does not matter.
//     Secrets are not compared: a request with a new one-time password is the same request.
//     A Secret in Extra is compared, unless its name ends in password, code, otp, pin or token. The log
//     stores no more of it than an HMAC, which a reader of the store can compare with guesses.
//   - A key belongs to one [Account]. Any other client gets ErrOtherAccount. After a move, a new user or
//     a new name, list the earlier account in [Options].Formerly. With a [lending.TokenSource] of your
//     own, name each account.
//
// Three options apply to one key: [SafeToRepeat] if a second execution does no harm (or
// [Options].SafeToRepeat, for all keys), [WithCheck] if your program can tell whether the mutation
// happened, and [AcceptRecorded] if a new release of yours changes the request. [Log.Lookup] returns the
// state and the response of a key.
//
// # States
//
// The state of a key decides what the next call does:
//
//	free          The mutation was never sent, was rejected, or did not happen.
//	              The call connects, reads the current state, records "sent" and sends
//	              the mutation.
//	sent          The mutation is in flight, or its process died. ErrInProgress
//	              until the deadline of the send. Then as in_doubt.
//	in_doubt      The response is lost. The call repeats the check. A new record means done.
//	              No new record means ErrInDoubt until MaxLateness is over. Then the call
//	              sends the mutation again.
//	needs_review  No check can tell. ErrNeedsReview until Log.Resolve, SafeToRepeat or
//	              WithCheck decides.
//	done          The call returns the recorded response and sends nothing.
//	forgotten     The mutation happened, and the response is older than KeepAnswers. The call
//	              returns the ids if they are enough. Else as in_doubt, without a resend.
//
// A send ends after 2 minutes at the latest, an upload without a deadline after 1 hour.
//
// If a success arrives but its body is cut, does not decode or exceeds MaxAnswer, the check
// rebuilds the response. The log does not resend the mutation, unless a second execution is
// harmless. If the check cannot rebuild the response, the call succeeds with an empty response
// where no later step needs one: ConfirmInvoiceWithdrawal, ResendWithdrawalOTP, Offer with Force
// and the calculations. After any other mutation a person supplies the response: ErrAnswerLost,
// in the state needs_review.
//
// A mutation that only sets a value (an update, a calculation, a registration) needs no check.
// The log resends the value, at once and then after growing pauses, unless another mutation has
// set a newer value. After 5 rejected resends the key needs a review: the first send may have
// succeeded.
//
// docs/dev/checks.md lists the check of every mutation and its assumptions.
//
// # What to do with an error
//
// [lending.NextOf] tells whether and when to call again, and whether a person has to act. Each reason,
// from [ErrInProgress] to [ErrStore], has the details.
//
// If the store fails after the response for 10 seconds, the call returns the result and ErrStore. Each
// call of the store ends after 10 seconds, and a list or a change of many entries after a minute, also without a
// deadline of the caller.
//
// # What an operator does
//
//   - Call [Log.Check] in a loop of its own, and [Log.Sweep] once a day, in any of the processes.
//   - Call [Log.Forget] days after the end of an order, and [Log.Erase] when a person asks for it.
//   - List open keys with [Log.Keys] and [InDoubtStates]. For a key that needs a review, a person
//     makes the reads of CheckWith and calls [Log.Resolve].
//   - After a restore of the store from a copy, call [Log.Restored] before anything is sent, and then [Log.Resume].
//     Give the calls of an order the time of its acceptance with [WithAccepted].
//   - Stop the sends of all replicas with [Log.Pause], and go on with [Log.Resume].
//   - Encrypt the responses at rest with [store.NewEncrypted].
//
// # Replicas
//
// Any number of processes can share a store, with equal [Options]. Each step is a
// compare-and-swap: two processes never send a mutation at the same time. The store measures all
// ages, so the clocks of the processes can differ. Give every call a deadline: after a crash,
// the others wait for it.
//
// Mutations whose effects look alike share a lock, for example two withdrawals from one loan.
// While the first withdrawal is in doubt, the second gets ErrLocked. If nobody calls the first
// again, the call of the second makes the check of the first, and takes the lock when MaxLateness
// is over.
//
// A keyed mutation costs 2 durable writes; with a lock and a check 3, or 4 if a record is added.
// A replay writes nothing. While a log sends, it reads the instructions twice a second.
//
// # What cannot be promised
//
// The mutation can happen twice
//   - if the service executes it, or reads show it, later than MaxLateness after the end of its
//     call: neither limit is published;
//   - if the process freezes for longer than MaxLateness between the last reading of the clock and
//     the system call that writes the request;
//   - if a transport of [lending.WithHTTPClient] writes the request after the deadline;
//   - if the store loses the entry: the documentation of each store names its requirements.
//
// The mutation can be missing if another program adds one record to the same list: the log takes
// that record for the effect of the mutation. Two new records need a review. A mutation
// also needs one if its process died just before the send and no read shows such mutations.
//
// Mutations of [lending.Client.Do], and batches for several customers, have no lock.
package idempotency
