// Package lendingotel reports the calls of a [lending.Client] to OpenTelemetry. Every call and
// every attempt has a span and a measurement, with the route template and the outcome.
//
//	client, err := lending.New(baseURL,
//		lending.WithCredentials(credentials),
//		lending.WithObserver(lendingotel.Observer(lendingotel.WithBaseURL(baseURL))),
//		lending.WithHeader(lendingotel.Header),
//	)
//
// [Observer] returns two functions, for calls and for attempts. Each works without the other. With
// [Header] each request carries the trace of its attempt, and its baggage.
//
// # Spans of calls
//
// Every call has a span of kind internal, also without a request to the service: a child of the
// span in the caller's context. Its name is "call", the method and the route. It ends with the
// result, so its duration includes waits and sign-ins. The attributes are those of attempts, but
// http.response.status_code is that of the last response, lending.attempts replaces
// http.request.resend_count, and lending.outcome is the result of [lending.OutcomeOf].
//
// # Spans of attempts
//
// Every attempt has a span of kind client: a child of the span of its call. Its name is the method
// and the route. It begins before the search for a connection and ends after the last byte of
// the response. Span and attributes follow version 1.43.0 of the semantic conventions for HTTP
// clients:
//
//	http.request.method        GET
//	url.template               /api/Loan/get-loan/{loanId}
//	http.response.status_code  503, absent without a response
//	http.request.resend_count  1 for the first retry, absent before
//	network.protocol.version   1.1 or 2, absent without a response
//	error.type                 503, or a word of the lists below; absent for success
//	server.address             lending.example, with WithBaseURL
//	server.port                443, with WithBaseURL
//	lending.effect             read, mutation
//	lending.outcome            done, rejected, not sent, unknown
//	lending.idempotency        sent, check; of calls also replayed, rebuilt, refused; absent without a key
//
// The outcome of an attempt is the outcome that the call has if no attempt follows. The status of
// a span is Error if the call returns an error after this attempt, with the text of
// [lending.Call].Err, which quotes no value. As the conventions want, a canceled context is no
// error: the status is unset, and lending.outcome tells the rest. The attribute error.type is the
// status of the response, or
//
//	timeout                the context's deadline, or a limit of the transport, has passed
//	host_not_found         the name of the service does not resolve
//	certificate_invalid    the certificate of the service is not accepted
//	connection_failed      no connection could be made
//	connection_reset       the connection broke
//	connection_closed      the connection was closed before the response was complete
//	answer_too_large       the response is larger than lending reads
//	unexpected_answer      a success whose body proves nothing: an HTML page, or a broken document
//	_OTHER                 any other error
//
// Calls have more types:
//
//	argument_invalid       an argument is invalid, and nothing was sent
//	sign_in_required       a person has to sign in
//	no_token               the client has no token, for another reason than those above
//	no_content             a success without the expected record
//	answer_not_decoded     a success whose body does not decode
//	in_progress            another call with the key may be in progress
//	in_doubt               it is not known yet whether the mutation with the key happened
//	needs_review           no check can tell whether it happened; a person must
//	locked                 another mutation, which would hide the effect, is in doubt
//	answer_lost            the mutation happened, and its response is not known
//	key_reused             the key belongs to another request
//	other_account          the key belongs to another service or account
//	paused                 the operator has paused the log
//	erased                 the data of the key was erased
//	idempotency_store_failed  the store of the log failed
//
// # Webhooks and keys
//
// [Webhooks] adds a span "process" with the name of the event, of kind consumer, and the histogram
// messaging.process.duration, with the attributes of the conventions for messaging:
// messaging.system (lending), messaging.operation.name, messaging.destination.name, error.type.
// [Store] adds an event to the span of a call for each load and each save of its idempotency key.
//
// So a trace leads from a delivery to the confirmed withdrawal, with the events in brackets. SELECT
// and INSERT are spans of the database driver; a queue such as River has its own around "process".
// The picture leaves the reads of the instructions out, at most two a second.
//
//	POST /webhooks
//	  process WB_Loan_Created
//	    call POST /api/Calculation/application-invoice-calculation  [load free, save sent, save done]
//	      SELECT
//	      INSERT
//	      POST /api/Calculation/application-invoice-calculation
//	      INSERT
//	    call POST /api/Loan/make-withdrawal-invoice/{loanId}  [load free, save sent, save done]
//	      SELECT
//	      INSERT
//	      POST /api/Loan/make-withdrawal-invoice/{loanId}
//	      INSERT
//	    call POST /api/Loan/confirm-withdrawal-invoice/{loanId}  [load free, save free, save sent, save done]
//	      SELECT
//	      INSERT
//	      SELECT
//	      INSERT
//	      SELECT
//	      call GET /api/Loan/get-transactions-paged/{loanId}
//	        GET /api/Loan/get-transactions-paged/{loanId}
//	      call GET /api/Loan/get-total-balance/{loanId}
//	        GET /api/Loan/get-total-balance/{loanId}
//	      call GET /api/Loan/get-withdrawals/{loanId}
//	        GET /api/Loan/get-withdrawals/{loanId}
//	      INSERT
//	      POST /api/Loan/confirm-withdrawal-invoice/{loanId}
//	      SELECT
//	      INSERT
//	      INSERT
//
// # Metrics
//
// The histograms are lending.client.call.duration and http.client.request.duration, in seconds.
// Their attributes are those of the spans, without the numbers of attempts. The histograms also
// count calls and attempts, so there is no separate counter.
//
// Alert on mutations whose outcome is unknown. In Prometheus:
//
//	lending_client_call_duration_seconds_count{lending_effect="mutation", lending_outcome="unknown"}
//
// An idempotency log ends most of these doubts. With a log, alert on the mutations that wait for
// a person:
//
//	lending_client_call_duration_seconds_count{error_type="needs_review"}
//
// # Gauges
//
// [Gauges] reads the log, the inboxes and the session at each collection:
//
//	lending.ready                   1 if lending.source (idempotency, or the name of the inbox or session) could be read
//	lending.idempotency.mutations   unfinished mutations, by lending.state: sent, in_doubt, needs_review
//	lending.idempotency.oldest_age  seconds, by lending.state
//	lending.inbox.events            by lending.source and lending.state: waiting, running, dead_letter
//	lending.inbox.oldest_age        seconds; waiting: since the first event was due
//	lending.session.token_life      seconds until the token expires, 0 without a token
//	lending.session.sign_in_needed  1 if a person has to sign in or to correct the credentials
//
// docs/operating.md has an alert for each gauge.
//
// # Privacy
//
// The spans and metrics hold no URL, no value of a parameter, no idempotency key, no header, no
// body, and nothing of a response except its status: url.full of the conventions is left out on
// purpose. The route of [lending.Client.Do] is the Path as the caller wrote it, so put values in
// Args.
//
// Do not use the transport of otelhttp below the client: for every attempt it records a second
// span with the URL and its query.
//
// # Combination with other observers
//
// The observers are functions. Call them from a function of your own to leave attempts out or to
// count more: see the examples. Several observers and loggers work together. The logger gets the
// same context, so a handler that adds trace IDs finds the span of the call.
//
// All calls that wait for a token share a sign-in, whose spans begin traces of their own.
package lendingotel
