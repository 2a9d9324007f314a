// Package web is what the plugin shows of itself: the [Report] that /api/v1/state is the JSON of, and the status page at / that is the same
// for people, drawn on the server as HTML and SVG. The page needs no script and nothing from elsewhere, and its headers allow neither.
//
// It only renders. What it shows is handed to it as a value; it knows neither NRI nor the books.
package web
