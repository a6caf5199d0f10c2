// Documents uploads the files named as arguments, or three files of its own. It also shows the
// errors for files that the client or the service does not accept.
//
// The program needs only Go, because it contains the service:
//
//	go run ./examples/documents [file ...]
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/lendingtest"
)

const submitRoute = "POST /api/Application/submit-bankstatement-document/{applicationId}"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "documents:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	service := lendingtest.NewServer()
	defer service.Close()
	client, err := lending.New(service.URL, lending.WithTokenSource(lending.StaticToken(service.Token(lendingtest.Username))))
	if err != nil {
		return err
	}
	defer client.Close()
	application, err := lending.ParseApplicationID(service.AddApplication(lendingtest.Application{}).ID)
	if err != nil {
		return err
	}
	up := uploader{client, application, stdout, stderr}
	if len(args) > 0 {
		return up.files(ctx, args)
	}
	return up.tour(ctx, service)
}

// uploader uploads bank statements of an application.
type uploader struct {
	client         *lending.Client
	application    lending.ApplicationID
	stdout, stderr io.Writer
}

// files uploads files from disk, whose sizes are known. No file is completely in memory.
func (u uploader) files(ctx context.Context, paths []string) error {
	for _, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		err = u.upload(ctx, lending.Document{Name: filepath.Base(path), Content: file})
		if err := errors.Join(err, file.Close()); err != nil {
			return err
		}
	}
	return nil
}

// upload uploads a document, shows its progress and prints the outcome.
func (u uploader) upload(ctx context.Context, doc lending.Document) error {
	doc.Progress = progress(u.stderr, doc.Name)
	err := u.client.Applications.SubmitBankStatement(ctx, u.application, doc)
	switch outcome := lending.OutcomeOf(err); {
	case err == nil:
		fmt.Fprintln(u.stdout, "accepted.")
	case outcome == lending.OutcomeUnknown, outcome == lending.OutcomeDone:
		return err // do not resend before checking the application
	default:
		fmt.Fprintf(u.stdout, "%v: the service has saved nothing.\n  %v\n", outcome, err)
	}
	return nil
}

// tour makes good and bad uploads.
func (u uploader) tour(ctx context.Context, service *lendingtest.Server) error {
	scan := bytes.Repeat([]byte("%PDF "), 700_000)

	fmt.Fprintln(u.stdout, "\nA file of 3.5 MB:")
	if err := u.upload(ctx, lending.Document{Name: "statement.pdf", Content: bytes.NewReader(scan)}); err != nil {
		return err
	}

	fmt.Fprintln(u.stdout, "\nA stream of unknown size, such as a pipe:")
	if err := u.upload(ctx, lending.Document{Name: "stream.pdf", Content: io.MultiReader(bytes.NewReader(scan))}); err != nil {
		return err
	}

	fmt.Fprintln(u.stdout, "\nA file of more than 15 MiB:")
	if err := u.upload(ctx, lending.Document{Name: "large.pdf", Content: bytes.NewReader(make([]byte, 15<<20+1))}); err != nil {
		return err
	}

	fmt.Fprintln(u.stdout, "\nA file that is shorter than its stated size:")
	if err := u.upload(ctx, lending.Document{Name: "cut.pdf", Content: io.MultiReader(strings.NewReader("%PDF")), Size: 1_000_000}); err != nil {
		return err
	}

	fmt.Fprintln(u.stdout, "\nA file that the service's host rejects before the first byte is sent:")
	service.Fail(submitRoute, lendingtest.Fault{Status: http.StatusRequestEntityTooLarge, Body: []byte{}})
	if err := u.upload(ctx, lending.Document{Name: "refused.pdf", Content: bytes.NewReader(scan)}); err != nil {
		return err
	}

	fmt.Fprintf(u.stdout, "\nThe service has executed %d uploads.\n", service.Executed(submitRoute))
	return nil
}
