package browser_test

import (
	"fmt"
	"math"
	"testing"

	"nri-cpuset/plugin/web"
	"nri-cpuset/topology/cpuset"
)

// measurements are what measure.js finds on a page.
type measurements struct {
	Width       int // of the window
	ScrollWidth int
	Beyond      []string // elements that stand out of the window
	Texts       []text
	Threads     []thread
}

type text struct {
	Where, Text string
	Color       string
	Behind      []string // colours
	Size        float64
}

type thread struct {
	CPU   int
	Box   box
	Texts []box
}

type box struct{ X, Y, Width, Height float64 }

func (b box) overlaps(c box) bool {
	const touch = 0.25 // of a pixel
	return b.X+touch < c.X+c.Width && c.X+touch < b.X+b.Width && b.Y+touch < c.Y+c.Height && c.Y+touch < b.Y+b.Height
}

const (
	minContrast = 4.5 // WCAG 2.2, 1.4.3 (AA)
	minTextSize = 9   // pixels
	minThread   = 24  // pixels of a thread's width: it is a target for a finger (WCAG 2.2, 2.5.8)
)

func (m *measurements) judge(t *testing.T, r *web.Report, v View) {
	t.Helper()
	if m.Width != v.Width || m.ScrollWidth > v.Width {
		t.Errorf("the page is %d pixels wide, in a window of %d, want %d", m.ScrollWidth, m.Width, v.Width)
	}
	if len(m.Beyond) > 0 {
		t.Errorf("%d elements stand out of the window, the first is %s", len(m.Beyond), m.Beyond[0])
	}
	if len(m.Texts) < 20 {
		t.Errorf("only %d texts are on the page", len(m.Texts))
	}
	for _, text := range m.Texts {
		if text.Size < minTextSize {
			t.Errorf("%s %q is %.1f pixels high, want %d", text.Where, text.Text, text.Size, minTextSize)
		}
		for _, behind := range text.Behind {
			if got := contrast(t, text.Color, behind); got < minContrast {
				t.Errorf("%s %q: %s on %s has a contrast of %.2f, want %.1f", text.Where, text.Text, text.Color, behind, got, minContrast)
			}
		}
	}
	m.judgeThreads(t, r)
}

func (m *measurements) judgeThreads(t *testing.T, r *web.Report) {
	t.Helper()
	var seen cpuset.Set
	for i, thread := range m.Threads {
		seen.Add(thread.CPU)
		if thread.Box.Width < minThread || thread.Box.Height < minThread/2 {
			t.Errorf("CPU %d is drawn with %.1f x %.1f pixels", thread.CPU, thread.Box.Width, thread.Box.Height)
		}
		for _, other := range m.Threads[:i] {
			if thread.Box.overlaps(other.Box) {
				t.Errorf("CPUs %d and %d are drawn over each other", thread.CPU, other.CPU)
			}
		}
		for j, text := range thread.Texts {
			if text.X < thread.Box.X || text.X+text.Width > thread.Box.X+thread.Box.Width {
				t.Errorf("CPU %d: a text stands out of it", thread.CPU)
			}
			if j > 0 && text.overlaps(thread.Texts[j-1]) {
				t.Errorf("CPU %d: its number and its mark overlap", thread.CPU)
			}
		}
	}
	if want := r.Online.Union(r.Machine.Offline); !seen.Equal(want) || len(m.Threads) != want.Len() {
		t.Errorf("%d CPUs are to be seen, %s; want %s, once each", len(m.Threads), seen, want)
	}
}

// contrast is the contrast ratio of two colours (WCAG 2.2).
func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	x, y := luminance(t, a), luminance(t, b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

func luminance(t *testing.T, color string) float64 {
	t.Helper()
	var channels [3]float64
	if _, err := fmt.Sscanf(color, "rgb(%f, %f, %f)", &channels[0], &channels[1], &channels[2]); err != nil {
		t.Fatalf("%q is no plain colour: %v", color, err)
	}
	for i, c := range channels {
		if c /= 255; c <= 0.04045 {
			channels[i] = c / 12.92
		} else {
			channels[i] = math.Pow((c+0.055)/1.055, 2.4)
		}
	}
	return 0.2126*channels[0] + 0.7152*channels[1] + 0.0722*channels[2]
}
