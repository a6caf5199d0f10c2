package main

// This import defines the -update flag, because all examples are updated together.
import _ "github.com/lendingapi/lending-go/internal/test/golden"

func Example() {
	main()
	// Output: created customer 00000001-0001-4000-8000-000000000001
}
