// Package page has the parts that this project's pages for people share: the style, the
// script that follows a page and sends its forms, the headers of a page, and the feed of
// server-sent events behind it.
package page

import (
	"embed"
	"net/http"
)

//go:embed page.css page.js
var files embed.FS

// Assets serves page.css and page.js. The script sends a form with data-order to the
// address in data-control of the html element.
func Assets() http.Handler { return http.FileServerFS(files) }

// Secure writes the headers of a page that runs no script and loads no style but those of
// its own origin, and that no other page may frame.
func Secure(h http.Header) {
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "+
		"img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
}
