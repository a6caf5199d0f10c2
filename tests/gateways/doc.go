// Package gateways tests the client through real gateways: nginx, haproxy, Apache and Caddy. Two instances of
// a small service stand behind each gateway and count the executions of every request.
//
// The files testdata/*/*.conf are the configurations, without the parts that every gateway of the tests shares:
// those are in the file main of the same folder. A gateway that the machine does not have is left out, and the
// test says so.
//
// The short form runs in seconds. With LENDING_TEST_GATEWAYS, the path of docs/gateways.md, the whole runs and
// writes the tables of the document.
package gateways
