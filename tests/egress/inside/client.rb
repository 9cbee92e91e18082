# SPDX-License-Identifier: Apache-2.0
require 'net/http'
require 'uri'
puts Net::HTTP.get(URI(ARGV[0]))
