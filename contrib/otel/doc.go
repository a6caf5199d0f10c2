// Package lendingotel tells OpenTelemetry about the calls of a [lending.Client]: a
// span and a measurement for every call and for every attempt, by route template, with
// the outcome.
//
//	client, err := lending.New(baseURL,
//		lending.WithCredentials(credentials),
//		lending.WithCallObserver(lendingotel.CallObserver(lendingotel.WithBaseURL(baseURL))),
//		lending.WithObserver(lendingotel.Observer(lendingotel.WithBaseURL(baseURL))),
//	)
//
// Either can be left out. It is a module of its own, so that nobody else gets its
// dependencies.
//
// # Spans of calls
//
// Every call is one span of kind internal, a child of the span in the context of the
// caller: also a call that sends nothing, for want of a token or because of an argument.
// It ends when the caller gets the result, so the waits between attempts are in it, and
// a success that does not decode is an error. Its name is "call", method and route. It
// has the attributes that are listed below, with the status of the last answer that
// there was, and lending.attempts in the place of the resend count. Its outcome is that
// of [lending.OutcomeOf].
//
// # Spans of attempts
//
// Every attempt is one span of kind client, a child of that of its call. A read that is
// repeated has several. The span begins before a connection is looked for and ends when
// the answer has been read whole. Its name is method and route, for example
// "GET /api/Loan/get-loan/{loanId}". It follows version 1.43.0 of the semantic
// conventions for HTTP clients:
//
//	http.request.method        GET
//	url.template               /api/Loan/get-loan/{loanId}
//	http.response.status_code  503, absent without an answer
//	http.request.resend_count  1 for the first repetition, absent before
//	error.type                 503, or one of those below; absent for success
//	server.address             lending.example, with WithBaseURL
//	server.port                443, with WithBaseURL
//	lending.effect             read, mutation
//	lending.outcome            done, rejected, not sent, unknown
//	lending.idempotency    sent, check; of calls also replayed, rebuilt, refused; absent without a key
//
// The route is the template of the interface: a path in the base URL is not part of it.
// The outcome is that of the call if the attempt is its last, so a read has one with
// every attempt. Neither a sign-in nor the wait between two attempts is in one.
//
// The status of the span is Error where the call, if the attempt is its last, returns
// an error: that includes every 4xx. Its description is the text of [lending.Attempt].Err,
// which quotes no value. The type of an error is the status of the answer, or
//
//	canceled               the context of the call was canceled
//	timeout                its deadline, or a limit of the transport, has passed
//	host_not_found         the name of the service does not resolve
//	certificate_invalid    its certificate is not accepted
//	connection_failed      no connection could be made
//	connection_reset       the connection broke
//	connection_closed      it was closed before the answer was complete
//	answer_too_large       the answer is larger than lending reads
//	unexpected_answer      a success that says nothing: a page of HTML, or one to half a document
//	_OTHER                 anything else
//
// and of calls, which end in more ways:
//
//	argument_invalid       an argument was refused, and nothing was sent
//	sign_in_required       a person has to sign in
//	no_token               no token could be had, for another reason than those above
//	no_content             a success without the record that is due
//	answer_not_decoded     a success whose answer is not what it should be
//	in_progress            another call with the key may be at it
//	in_doubt               it is not known yet whether the command with the key happened
//	needs_review           no check tells, a person has to
//	locked             another command, which would hide it, is inDoubt
//	answer_lost            it has happened, and its answer is not known
//	idempotency_store_failed  the store of the log failed
//
// # Metrics
//
// The histograms lending.client.call.duration and http.client.request.duration, in
// seconds, have the attributes of the spans but for the numbers of attempts. They count
// as well, so there is no further metric. What to be woken for is a command of which
// nobody knows whether it happened; as Prometheus spells it:
//
//	lending_client_call_duration_seconds_count{lending_effect="mutation", lending_outcome="unknown"}
//
// and with a log, which ends most of those doubts, the mutations that wait for a person:
//
//	lending_client_call_duration_seconds_count{error_type="needs_review"}
//
// # Gauges
//
// [Gauges] reads the log, the inboxes and the session at each collection:
//
//	lending.ready                   1 if lending.source (idempotency, session, or the inbox) could be read
//	lending.idempotency.mutations   mutations that are not done, by lending.state: sent, in_doubt, needs_review
//	lending.idempotency.oldest_age  seconds, by lending.state
//	lending.inbox.events            by lending.source and lending.state: waiting, running, dead_letter
//	lending.inbox.oldest_age        seconds; waiting: since the first event was due
//	lending.session.token_life      seconds that the token lives, 0 without one
//	lending.session.sign_in_needed  1 if a person has to sign in or to correct the credentials
//
// docs/operating.md has an alert for each.
//
// # What is not recorded
//
// No URL, no value of a parameter, no key of a command, no header, no body, and nothing
// of an answer but its status: a customer's e-mail address, an SSN or a token cannot reach
// a collector this way. The conventions require url.full; it is left out on purpose. They
// require server.address and server.port too, which need [WithBaseURL]. The route of
// [lending.Client.Do] is the Path that its caller wrote: values belong in Args.
//
// For the same reason do not put the transport of otelhttp below the client: it records
// the URL with its query, in a second span of every attempt.
//
// # With other things
//
// The observers are functions: call them from some of your own to leave attempts out or
// to count more, see the examples. Several [lending.WithCallObserver],
// [lending.WithObserver] and [lending.WithLogger] go together; the logger gets the same
// context, so that a handler which adds trace ids finds the span of the call. Views
// of the metric SDK drop attributes or change bounds.
//
// A sign-in is shared by all calls that wait for it, so its spans are no one's children:
// they begin traces of their own. Spans of attempts are made after the attempt, from its
// times; that is why the service is sent no traceparent header.
package lendingotel
