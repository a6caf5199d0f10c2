package main

func Example() {
	main()
	// Output: created customer 00000001-0001-4000-8000-000000000001
}
