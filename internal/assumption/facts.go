package assumption

// The names of the assumptions with facts. A fact is named by its assumption, or "assumption: subject".
const (
	Absence              = "absence"                 // the form of the response, by read
	EmptyList            = "empty list"              // the form of the response, by read
	ForeignRecords       = "foreign records"         // the form of the response
	Gateway              = "gateway"                 // the form of the response
	MalformedIdentifier  = "malformed identifier"    // the form of the response
	DuplicateCustomer    = "duplicate customer"      // the form of the response, or SecondRecord
	WrongPassword        = "wrong password"          // the status
	WrongOneTimePassword = "wrong one-time password" // the status
	TokenRefused         = "token refused"           // the status
	ProblemRecord        = "problem record"          // the forms of refusals, by status
	SecondProcessing     = "second processing"       // the status, or the offer
	TakeCap              = "take cap"                // the number of records, by list
	Pages                = "pages"                   // SameOrder or AnotherOrder
	Totals               = "totals"                  // WholeList or AnotherNumber
	Descending           = "descending"              // Reversed, Ignored or AnotherOrder
	MessageOrder         = "message order"           // OldestFirst or NewestFirst
	ProcessAnswers       = "process answers"         // OfferID or AnotherID
	EmailIdentifies      = "e-mail identifies"       // CreatedID or AnotherID
	SameValue            = "same value"              // OneAccount or TwoAccounts
	Refresh              = "refresh"                 // TokenValid or TokenGone
	KeepAlive            = "keep-alive"              // SameConnection or NewConnection, InARow and AfterPause
	Clock                = "clock"                   // a duration
	TokenLife            = "token life"              // a duration
	LateExecution        = "late execution"          // a duration
	ReadLag              = "read lag"                // a duration, by read
	RateLimit            = "rate limit"              // a number of requests
	SizeLimit            = "size limit"              // a number of bytes
	Fields               = "fields"                  // no fact: the shapes of responses
	Words                = "words"                   // no fact: the words of statuses and types
	WebhookOrder         = "webhook order"           // AnotherOrder, or as created
	WebhookSignature     = "webhook signature"       // valid or NotValid
	WebhookDelay         = "webhook delay"           // a duration
	WebhookCopies        = "webhook copies"          // Some or none
	WebhookRetry         = "webhook retry"           // DeliveredAgain or not
	WithdrawalListed     = "withdrawal listed"       // OneMore, or FromStart
)

// The words of facts that package probe writes and lendingtest reads.
const (
	Problem        = "problem record"                                       // the kind of a body, after the status
	Empty          = "empty"                                                // the kind of a body, or the form of a refusal
	OtherJSON      = "other JSON"                                           // the kind of a body
	WithoutToken   = "without a token"                                      // the kind of a body
	WithRefusal    = "with a refusal"                                       // the kind of a body
	SecondRecord   = "200 with a second customer"                           // of DuplicateCustomer
	SameOffer      = "200 with the same id"                                 // of SecondProcessing
	SameOrder      = "the same order"                                       // of Pages
	AnotherOrder   = "another order"                                        // of Pages, Descending, WebhookOrder
	WholeList      = "the whole list"                                       // of Totals
	AnotherNumber  = "another number"                                       // of Totals
	Reversed       = "reversed"                                             // of Descending
	Ignored        = "ignored"                                              // of Descending
	OldestFirst    = "oldest first"                                         // of MessageOrder
	NewestFirst    = "newest first"                                         // of MessageOrder
	CreatedID      = "the id of the creation"                               // of EmailIdentifies
	OfferID        = "the id of the offer"                                  // of ProcessAnswers
	AnotherID      = "another id"                                           // of ProcessAnswers, EmailIdentifies
	OneAccount     = "1 accounts, then 1"                                   // of SameValue
	TwoAccounts    = "1 accounts, then 2"                                   // of SameValue
	TokenValid     = "old token valid"                                      // of Refresh
	TokenGone      = "old token refused"                                    // of Refresh
	SameConnection = "same connection"                                      // of KeepAlive
	NewConnection  = "new connection"                                       // of KeepAlive
	InARow         = "in a row"                                             // subject of KeepAlive
	AfterPause     = "after 2s"                                             // subject of KeepAlive
	NoOffer        = "application-offer of an application without an offer" // subject of Absence
	NotValid       = "not valid"                                            // of WebhookSignature
	Some           = "some"                                                 // of WebhookCopies
	DeliveredAgain = "delivered again"                                      // of WebhookRetry
	OneMore        = "1 more"                                               // of WithdrawalListed
	FromStart      = "from its start"                                       // of WithdrawalListed
)

// The forms of refusals. A fact of [ProblemRecord] is Empty, or a media type and a form; several are joined with ", ".
const (
	FormArray          = "array"           // errors is a list, as in the published record
	FormDictionary     = "dictionary"      // errors is an object
	FormBareDictionary = "bare dictionary" // all members are lists of texts
	FormRecord         = "record"          // an object without errors
	FormOther          = "other"           // no object, for example a page
)
