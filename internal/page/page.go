// Package page has the shared parts of this project's pages for people: the style, the script
// that follows a page and sends its forms, and the headers.
package page

import (
	"embed"
	"net/http"
)

//go:embed page.css page.js
var files embed.FS

// Assets serves page.css and page.js. The script sends a form with data-order to the address in
// data-control of the html element.
func Assets() http.Handler { return http.FileServerFS(files) }

// Secure writes the headers of a page with scripts and styles of its own origin only, outside
// any frame. formAction is the page's policy for forms without a script: 'none' or 'self'.
func Secure(h http.Header, formAction string) {
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "+
		"img-src data:; base-uri 'none'; form-action "+formAction+"; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
}
