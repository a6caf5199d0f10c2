package guarantees_test

import (
	"bytes"
	"encoding/json"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"testing/iotest"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/race"
	"github.com/lendingapi/lending-go/internal/test/wire"
)

var (
	uploadTo    = lending.ApplicationID(uuid.MustParse("11111111-2222-3333-4444-555555555555"))
	requirement = lending.RequirementID(uuid.MustParse("66666666-7777-8888-9999-000000000000"))
)

// file returns the first n of shared bytes, of which no two neighbours are the same.
func file(n int) []byte { return pattern()[:n:n] }

var pattern = sync.OnceValue(func() []byte {
	b := make([]byte, lending.MaxDocument+2)
	for i := range b {
		b[i] = byte(i*7 + i>>8)
	}
	return b
})

// received is a document as it arrived.
type received struct {
	path, query, contentType, expect string
	length                           int64
	content                          []byte
	err                              error // of reading the body as a JSON string of base64
}

// documents answers every upload with the answer and sends what arrived.
func documents(t *testing.T, answer string) (*lending.Client, <-chan received) {
	t.Helper()
	arrived := make(chan received, 16)
	client := wire.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		got := received{
			path: r.URL.Path, query: r.URL.RawQuery, length: r.ContentLength,
			contentType: r.Header.Get("Content-Type"), expect: r.Header.Get("Expect"),
		}
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(body, &got.content)
		}
		got.err = err
		arrived <- got
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, answer)
	})
	return client, arrived
}

func TestUploadRoutes(t *testing.T) {
	client, arrived := documents(t, "true")
	ctx := t.Context()
	doc := func() lending.Document {
		return lending.Document{Name: "March & April.pdf", Content: strings.NewReader("statement")}
	}

	require.NoError(t, client.Applications.SubmitBankStatement(ctx, uploadTo, doc()))
	got := <-arrived
	require.NoError(t, got.err)
	assert.Equal(t, "/api/Application/submit-bankstatement-document/"+uploadTo.String(), got.path)
	assert.Equal(t, "fileName=March+%26+April.pdf", got.query)
	assert.Equal(t, "statement", string(got.content))
	assert.Equal(t, "application/json", got.contentType)
	assert.EqualValues(t, 14, got.length)

	require.NoError(t, client.Approval.SubmitRequiredDocument(ctx, uploadTo, requirement, "VoidedCheck", doc()))
	got = <-arrived
	assert.Equal(t, "/api/ApplicationApproval/submit-required-document/"+uploadTo.String(), got.path)
	assert.Equal(t, "supportingDocumentId="+requirement.String()+"&fileType=VoidedCheck&fileName=March+%26+April.pdf",
		got.query)
	assert.Equal(t, "statement", string(got.content))

	require.NoError(t, client.Approval.SubmitDocument(ctx, uploadTo, "Other", doc()))
	got = <-arrived
	assert.Equal(t, "/api/ApplicationApproval/submit-document/"+uploadTo.String(), got.path)
	assert.Equal(t, "fileType=Other&fileName=March+%26+April.pdf", got.query)
	assert.Equal(t, "statement", string(got.content))
}

func TestUploadIsByteExact(t *testing.T) {
	client, arrived := documents(t, "true")
	sizes := []int{1, 2, 3, 4, 24 << 10, 300_001, lending.MaxDocument, lending.MaxDocument - 1}
	if race.Enabled { // which reads each byte ten times as slowly
		sizes = sizes[:7]
	}
	for _, size := range sizes {
		content := file(size)
		for _, test := range []struct {
			name   string
			reader io.Reader
		}{
			{"known size", bytes.NewReader(content)},
			{"unknown size", io.MultiReader(bytes.NewReader(content))},
		} {
			err := client.Applications.SubmitBankStatement(t.Context(), uploadTo,
				lending.Document{Name: "f", Content: test.reader})
			require.NoError(t, err)
			got := <-arrived
			require.NoError(t, got.err)
			require.True(t, bytes.Equal(content, got.content), "%d bytes, %s", size, test.name)
			if test.name == "known size" {
				require.EqualValues(t, (size+2)/3*4+2, got.length)
			} else {
				require.EqualValues(t, -1, got.length)
			}
			require.Equal(t, test.name == "unknown size" || size > 256<<10, got.expect == "100-continue")
		}
	}
}

func TestDocumentKnowsItsNameAndSize(t *testing.T) {
	client, arrived := documents(t, "true")
	path := filepath.Join(t.TempDir(), "statement.pdf")
	require.NoError(t, os.WriteFile(path, []byte("0123456789"), 0o600))
	osFile, err := os.Open(path)
	require.NoError(t, err)
	defer osFile.Close()
	_, err = osFile.Seek(4, io.SeekStart)
	require.NoError(t, err)
	fsFile, err := fstest.MapFS{"dir/contract.pdf": {Data: []byte("contract")}}.Open("dir/contract.pdf")
	require.NoError(t, err)
	pipe, writer, err := os.Pipe()
	require.NoError(t, err)
	_, err = writer.WriteString("from a pipe")
	require.NoError(t, err)
	require.NoError(t, writer.Close())
	half := bytes.NewBufferString("half read")
	_ = half.Next(5)
	section := io.NewSectionReader(strings.NewReader("a section of it"), 2, 7)
	_, err = section.Seek(2, io.SeekStart)
	require.NoError(t, err)
	part := multipartFile(t, "a part")

	for _, test := range []struct {
		doc           lending.Document
		name, content string
		length        int64
	}{
		{lending.Document{Content: osFile}, "statement.pdf", "456789", 10},
		{lending.Document{Content: fsFile}, "contract.pdf", "contract", 14},
		{lending.Document{Content: pipe, Name: "piped"}, "piped", "from a pipe", -1},
		{lending.Document{Content: half, Name: "half"}, "half", "read", 10},
		{lending.Document{Content: section, Name: "section"}, "section", "ction", 10},
		{lending.Document{Content: part, Name: "part"}, "part", "a part", 10},
		{lending.Document{Content: boxed{strings.NewReader("boxed"), 99}, Name: "boxed"}, "boxed", "boxed", -1},
		{lending.Document{Content: strings.NewReader("s"), Name: "s"}, "s", "s", 6},
		{lending.Document{Content: iotest.HalfReader(strings.NewReader("known")), Name: "known", Size: 5}, "known",
			"known", 10},
	} {
		t.Run(test.name, func(t *testing.T) {
			require.NoError(t, client.Applications.SubmitBankStatement(t.Context(), uploadTo, test.doc))
			got := <-arrived
			require.NoError(t, got.err)
			assert.Equal(t, "fileName="+test.name, got.query)
			assert.Equal(t, test.content, string(got.content))
			assert.Equal(t, test.length, got.length)
		})
	}
}

// boxed has a Len that is not the number of its bytes, as a list's is not.
type boxed struct {
	io.Reader
	n int
}

func (b boxed) Len() int { return b.n }

// multipartFile is a file as a form brings it.
func multipartFile(t *testing.T, content string) multipart.File {
	t.Helper()
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	part, err := w.CreateFormFile("file", "part.pdf")
	require.NoError(t, err)
	_, err = io.WriteString(part, content)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	r, err := multipart.NewReader(&form, w.Boundary()).ReadForm(1 << 20)
	require.NoError(t, err)
	file, err := r.File["file"][0].Open()
	require.NoError(t, err)
	t.Cleanup(func() { _ = file.Close() })
	return file
}
