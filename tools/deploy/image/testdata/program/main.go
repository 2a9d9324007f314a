// Command program is what the tests make an image of: a program with a dependency.
package main

import (
	"fmt"

	"github.com/distribution/reference"
)

func main() { fmt.Println(reference.ErrNameEmpty) }
