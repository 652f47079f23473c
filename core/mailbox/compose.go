// SPDX-License-Identifier: Apache-2.0

package mailbox

// composed lists, for each combining mark, the letters it joins with and what
// they become. It covers Latin, Greek and Cyrillic letters, which is what
// keyboards and other systems send decomposed; other scripts pass unchanged.
// A test checks every pair against Unicode's own normalization.
var composed = map[rune]string{
	'\u0300': "AÀEÈIÌOÒUÙaàeèiìoòuùÜǛüǜNǸnǹЕЀИЍеѐиѝĒḔēḕŌṐōṑWẀwẁÂẦâầĂẰăằÊỀêềÔỒôồƠỜơờƯỪưừYỲyỳ",
	'\u0301': "AÁEÉIÍOÓUÚYÝaáeéiíoóuúyýCĆcćLĹlĺNŃnńRŔrŕSŚsśZŹzźÜǗüǘGǴgǵÅǺåǻÆǼæǽØǾøǿΑΆΕΈΗΉΙΊΟΌΥΎΩΏϊΐαάεέηήιίϋΰοόυύωώϒϓГЃКЌгѓкќÇḈçḉĒḖēḗÏḮïḯKḰkḱMḾmḿÕṌõṍŌṒōṓPṔpṕŨṸũṹWẂwẃÂẤâấĂẮăắÊẾêếÔỐôốƠỚơớƯỨưứ",
	'\u0302': "AÂEÊIÎOÔUÛaâeêiîoôuûCĈcĉGĜgĝHĤhĥJĴjĵSŜsŝWŴwŵYŶyŷZẐzẑẠẬạậẸỆẹệỌỘọộ",
	'\u0303': "AÃNÑOÕaãnñoõIĨiĩUŨuũVṼvṽÂẪâẫĂẴăẵEẼeẽÊỄêễÔỖôỗƠỠơỡƯỮưữYỸyỹ",
	'\u0304': "AĀaāEĒeēIĪiīOŌoōUŪuūÜǕüǖÄǞäǟȦǠȧǡÆǢæǣǪǬǫǭÖȪöȫÕȬõȭȮȰȯȱYȲyȳИӢиӣУӮуӯGḠgḡḶḸḷḹṚṜṛṝ",
	'\u0306': "AĂaăEĔeĕGĞgğIĬiĭOŎoŏUŬuŭУЎИЙийуўЖӁжӂАӐаӑЕӖеӗȨḜȩḝẠẶạặ",
	'\u0307': "CĊcċEĖeėGĠgġIİZŻzżAȦaȧOȮoȯBḂbḃDḊdḋFḞfḟHḢhḣMṀmṁNṄnṅPṖpṗRṘrṙSṠsṡŚṤśṥŠṦšṧṢṨṣṩTṪtṫWẆwẇXẊxẋYẎyẏſẛ",
	'\u0308': "AÄEËIÏOÖUÜaäeëiïoöuüyÿYŸΙΪΥΫιϊυϋϒϔЕЁІЇеёіїАӒаӓӘӚәӛЖӜжӝЗӞзӟИӤиӥОӦоӧӨӪөӫЭӬэӭУӰуӱЧӴчӵЫӸыӹHḦhḧÕṎõṏŪṺūṻWẄwẅXẌxẍtẗ",
	'\u0309': "AẢaảÂẨâẩĂẲăẳEẺeẻÊỂêểIỈiỉOỎoỏÔỔôổƠỞơởUỦuủƯỬưửYỶyỷ",
	'\u030a': "AÅaåUŮuůwẘyẙ",
	'\u030b': "OŐoőUŰuűУӲуӳ",
	'\u030c': "CČcčDĎdďEĚeěLĽlľNŇnňRŘrřSŠsšTŤtťZŽzžAǍaǎIǏiǐOǑoǒUǓuǔÜǙüǚGǦgǧKǨkǩƷǮʒǯjǰHȞhȟ",
	'\u030f': "AȀaȁEȄeȅIȈiȉOȌoȍRȐrȑUȔuȕѴѶѵѷ",
	'\u0311': "AȂaȃEȆeȇIȊiȋOȎoȏRȒrȓUȖuȗ",
	'\u031b': "OƠoơUƯuư",
	'\u0323': "BḄbḅDḌdḍHḤhḥKḲkḳLḶlḷMṂmṃNṆnṇRṚrṛSṢsṣTṬtṭVṾvṿWẈwẉZẒzẓAẠaạEẸeẹIỊiịOỌoọƠỢơợUỤuụƯỰưựYỴyỵ",
	'\u0324': "UṲuṳ",
	'\u0325': "AḀaḁ",
	'\u0326': "SȘsșTȚtț",
	'\u0327': "CÇcçGĢgģKĶkķLĻlļNŅnņRŖrŗSŞsşTŢtţEȨeȩDḐdḑHḨhḩ",
	'\u0328': "AĄaąEĘeęIĮiįUŲuųOǪoǫ",
	'\u032d': "DḒdḓEḘeḙLḼlḽNṊnṋTṰtṱUṶuṷ",
	'\u032e': "HḪhḫ",
	'\u0330': "EḚeḛIḬiḭUṴuṵ",
	'\u0331': "BḆbḇDḎdḏKḴkḵLḺlḻNṈnṉRṞrṟTṮtṯZẔzẕhẖ",
}

// compose joins letters with the combining marks that follow them.
func compose(s string) string {
	var out []rune
	for _, c := range s {
		if joined := join(out, c); joined != 0 {
			out[len(out)-1] = joined
			continue
		}
		out = append(out, c)
	}
	return string(out)
}

func join(before []rune, mark rune) rune {
	pairs, ok := composed[mark]
	if !ok || len(before) == 0 {
		return 0
	}
	last := before[len(before)-1]
	letters := []rune(pairs)
	for i := 0; i < len(letters); i += 2 {
		if letters[i] == last {
			return letters[i+1]
		}
	}
	return 0
}
