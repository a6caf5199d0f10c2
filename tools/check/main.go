// Check holds the rules for comments, documents and tests beyond those of the linters:
//
//	check comments packages...     doc comments name existing declarations
//	check cycles file packages...  few files of a package use each other
//	check links files...           links in Markdown files lead somewhere in the repository
//	check words [-v]               documents, doc comments and tests avoid four vague words
package main

import (
	"fmt"
	"os"
)

func main() {
	check := map[string]func(arguments []string) (problems []string, err error){
		"comments": comments, "cycles": cycles, "links": links, "words": words,
	}
	if len(os.Args) < 2 || check[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: check comments|cycles|links|words [arguments]")
		os.Exit(2)
	}
	problems, err := check[os.Args[1]](os.Args[2:])
	for _, problem := range problems {
		fmt.Println(problem)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "check:", err)
		os.Exit(2)
	}
	os.Exit(min(len(problems), 1))
}
