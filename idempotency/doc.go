// Package idempotency makes mutations happen once. The caller names a mutation with an
// idempotency key; a log remembers what became of it, also if the process dies in the middle.
//
//	log, err := idempotency.NewLog(store.NewMemory(), nil)
//
//	client, err := lending.New(address, lending.WithCredentials(credentials), lending.WithIdempotency(log))
//
//	ctx = lending.WithIdempotencyKey(ctx, "order-42/create-customer")
//	customer, err := client.Applications.CreateCustomer(ctx, request)
//
// The log writes the mutation down before its first byte is sent, and records the response
// afterwards. The same call with the same key returns the recorded response, in any process
// that shares the store. If the response was lost, the log finds out with reads whether the
// mutation happened. Begin an order at the top after every error and every restart: the steps
// that are done cost one read of the store each.
//
// A store in memory loses everything with its process. Stores that survive are in the modules
// contrib/bolt (one process), contrib/redis and contrib/postgres (any number of replicas). A
// store of your own implements [store.Store]; the suite lendingtest/storetest.IdempotencyStore
// holds it to the contract.
//
// # Keys
//
// Take a key from your business: an order and a step. A key from a clock, a job or a workflow
// run differs in the next try, and the mutation is sent again. A key belongs to one request:
// method, parameters and body. Secrets are not compared, so a new one-time password is the same
// request. A request that contains time.Now() never matches an earlier one. A request that
// differs from the request that has left under the key is ErrKeyReused. Its outcome says
// whether the first request happened. [AcceptRecorded] lets an order go on whose requests a new
// release changes, and [Log.Lookup] tells the state and the answer of a key without the request.
//
// A key also belongs to one service and one account: the base URL and the username of
// [lending.WithCredentials]. Another client gets ErrOtherAccount, never the recorded response. Of a
// [lending.StaticToken], and of a [lending.TokenSource] of your own, only the base URL is known:
// give each account a namespace of its own there.
//
// Two options say more about the mutation of a key: [SafeToRepeat] if a second execution does
// no harm, and [WithCheck] if you can tell better than this package whether it happened.
//
// # States
//
// An entry has one of six states. The next call with its key does this:
//
//	free          The mutation was never sent, was rejected, or a check showed that it did not
//	              happen. The log reads the current state, writes "sent", and sends it. If it
//	              can never have left before, the request may differ from the last one.
//	sent          While the earlier call may be in flight (its deadline, 2 minutes at most, 1
//	              hour for an upload without a deadline): ErrInProgress. Then as in_doubt.
//	in_doubt      The response was lost. The log repeats the check that it made before the
//	              send. A new record means done. No new record means ErrInDoubt until
//	              MaxLateness is over, then the mutation is sent again.
//	needs_review  No check tells whether it happened: ErrNeedsReview until Log.Resolve,
//	              SafeToRepeat or WithCheck decides.
//	done          Nothing is sent. The recorded response is returned.
//	forgotten     It happened, and the response is older than KeepAnswers, or no read shows it.
//	              The ids of the response are kept, and the log returns them if a later step needs no more.
//	              Otherwise as a lost answer, below.
//
// If a success came and its body is cut, does not decode or is larger than MaxAnswer, the entry
// is in_doubt too, and knows that the mutation happened. The next call rebuilds the response with
// the same check. It never sends the mutation again, unless that is safe. What it cannot rebuild
// is ErrAnswerLost, with outcome done, until WithCheck or Log.Resolve gives the response.
//
// A mutation that only sets a value (an update, a calculation, a registration) is sent again, at
// once after the first loss and then after pauses that grow, unless another mutation has set a
// newer value. If the service rejects the second send, the state stays in_doubt, because the
// first send may have succeeded; after 5 rejections the entry needs a review.
//
// The table in docs/checks.md has a row for every mutation: the reads of its check, what a lost
// response leads to, what the check assumes, and who can be mistaken for the mutation.
//
// # What to do with an error
//
// [lending.NextOf] says whether to call again, and when. The RetryAfter of [Error] and of
// [lending.Error] is the same.
// The outcome says whether the mutation may have happened, as without a key.
//
//	ErrInProgress   another call is sending it, or its process died a moment ago
//	ErrInDoubt      wait: a check failed, or the service can still execute it
//	ErrLocked       wait: Error.Held is the key of a mutation that must end first
//	ErrNeedsReview  tell a person, who calls Log.Resolve
//	ErrAnswerLost   it happened; call again if RetryAfter is set, else read what you need
//	ErrKeyReused    call with the first request; the outcome is that of the first request
//	ErrOtherAccount use a log with another Options.Namespace for each service and account
//	ErrStore        the store failed; if the outcome is done, the mutation happened
//
// If the store fails after the response has come, the log tries for 10 seconds. Then the call
// returns the decoded result together with ErrStore, and the next call with the key finds out
// that the mutation happened.
//
// # What an operator does
//
// [Log.Entries] lists what the log knows of each key, with [InDoubtStates] of those in doubt. The
// next call with the key ends most doubts. An entry that needs a person waits for [Log.Resolve]:
// the person looks up the records that the entry names, with the reads of CheckWith, and says
// Happened or NotHappened, who found out and how. A verdict can be corrected until a call relies
// on it.
//
// Call [Log.Check] in a loop, in as many replicas as there are, and wait for as long as it says. It
// makes the checks of the mutations whose owners never call again, by the ids that the entries keep,
// and sends none. An entry keeps no e-mail address: the doubt about a new customer ends with a call
// with the key, and blocks nobody.
//
// Call [Log.Sweep] about once a day, in any one of the processes. It removes the responses that
// are older than KeepAnswers, because responses hold personal data. The entries stay: a mutation
// without one would be sent again. [Log.Forget] deletes the entries of an order that is finished,
// when nobody calls with one of its keys any more. [store.NewEncrypted] encrypts the responses at
// rest.
//
// # Replicas
//
// Any number of processes can use one store, with equal [Options]. Each step is a
// compare-and-swap in the store, so two processes never send one mutation at the same time. Give
// every call a deadline: if a process dies, the other processes wait for as long.
//
// Mutations whose effects a check could not tell apart share a lock, for example two
// creations for one customer or two withdrawals from one loan. While one of them is in doubt the
// others get ErrLocked, with RetryAfter. If the owner of that one never calls again, the next
// mutation of the lock makes the check in its place, and takes the lock at the latest when
// MaxLateness is over. A mutation that was sent twice keeps its lock for MaxLateness.
//
// The log keeps one entry for each lock whose mutations add records: the number of records that
// the last mutation has left, and the ids in its response. For MaxLateness afterwards the log
// believes no read that shows less. Reads can therefore lag behind writes, and the effect of one
// mutation is not taken for the effect of the next.
//
// A mutation with a key costs two durable writes. A mutation that takes a lock before a check
// costs a third one, and a fourth one if it adds a record. A replay costs none. A call without a
// key costs nothing.
//
// # What cannot be promised
//
// The mutation can happen twice
//   - if the service executes it later than MaxLateness after the end of its call;
//   - if the process stands still for longer than that between the last look at the clock and the
//     system call that writes the request, which follows at once;
//   - if a transport of [lending.WithHTTPClient] writes the request after the deadline: there the
//     client looks at the clock only before the transport gets the request;
//   - if the store loses the entry: the documentation of each store says what it needs.
//
// A check believes a read that shows nothing for longer than MaxLateness. How late reads show
// earlier writes is not published. If somebody else creates a record in the same list without
// this log, one new record is taken for the record of the mutation, which is then not sent
// again; two new records need a review. Mutations of [lending.Client.Do], and batches for
// several customers, have no lock.
//
// # Failures that are covered
//
//   - A crash before, during or after the send: the entry says "sent", and a check decides. If
//     no check can, the entry needs a review, although the mutation may never have left.
//   - Two callers with one key: one sends, the other gets ErrInProgress.
//   - A frozen process that wakes up: the connection of the mutation looks at the clock before
//     each write and refuses to write after the deadline, also if the timer of the context is
//     late. Nobody else sends before that deadline. What it still receives counts more than a check of another process, unless
//     that has found the mutation done.
//   - A mutation that the service executes late: a check that finds nothing counts only after
//     MaxLateness.
//   - A store that fails before the send: nothing is sent.
//   - Clocks that differ: ages are measured by the store, and deadlines are durations.
package idempotency
