module nri-cpuset

go 1.26.0
