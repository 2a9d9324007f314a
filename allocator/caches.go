package allocator

import "nri-cpuset/topology/cpuset"

// takeCaches is prefer-align-cpus-by-uncorecache: whole last-level caches first, then all of the rest in one cache, where a cache has just
// what is needed in its lowest cores. It takes nothing for the rest otherwise.
func takeCaches(p *pool, need int) int {
	if len(p.layout.caches) == 0 {
		return need
	}
	caches := p.cachesByFree()
	if perCache := p.layout.machine.Online.Len() / len(p.layout.caches); need >= perCache {
		need = p.takeWhole(caches, need)
	}
	for _, c := range caches {
		if need == 0 {
			break
		}
		need = takePartOfCache(p, c, need)
	}
	return need
}

// takePartOfCache takes all that is needed from one cache, or nothing. It looks at no more cores than the need fills, from the lowest with a
// free thread on, as the kubelet does: a cache whose lowest cores are half taken is passed over.
func takePartOfCache(p *pool, cache *unit, need int) int {
	threads := p.layout.threads
	cores := (need + threads - 1) / threads
	inCache := cache.cpus.Intersect(p.free)
	var part cpuset.Set
	for _, c := range p.layout.cores {
		here := c.cpus.Intersect(inCache)
		if here.IsEmpty() {
			continue
		}
		if part = part.Union(here); cores == 1 {
			break
		}
		cores--
	}
	if need%2 != 0 && threads > 1 && part.Len() > need {
		part.Remove(part.Last())
	}
	if part.Len() != need || p.coreSums && !p.layout.wholeCores(part).Equal(part) {
		return need
	}
	p.take(part)
	return 0
}
